"""Inputs of a round of federated K-means: the previous state, the members' requests, and the groups to sum.

Functions of the ledger up to the round's opening (and of its order and shares), so that everybody gets the same, now
and later.
"""

import hashlib
from itertools import pairwise

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.masking.graph import Group
from fedgrove.node.methods.kmeans.exchange import Exchange, exchange
from fedgrove.node.methods.kmeans.settings import KMeansSettings
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import terms_of
from fedgrove.node.protocol.cells import crowd_of
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig

_KEY = b"fedgrove clustering key 1"
_MOST_DOUBLINGS = 20


def state_before(
    rounds: Rounds,
    current: RoundRecords,
    config: FederationConfig,
    store: ContentReader,
    model: KMeansState | None = None,
) -> KMeansState:
    """The state that a round starts from: ``model`` if it is given, else fetched.

    Raises
    ------
    StoreError
    InvalidContent
        The blob is no state, or no round can have left it where the ledger has it.
    """
    found = model or KMeansState.from_bytes(
        store.fetch(current.opened.model_digest, config.max_blob_bytes), terms_of(config)
    )
    return checked(rounds, found, current.number)


def checked(rounds: Rounds, state: KMeansState, number: int) -> KMeansState:
    """The state itself, if its rounds are on the ledger, before round ``number``; else InvalidContent."""
    for each in (state.round, state.whole):
        if each and not (each < number and each in rounds.rounds):
            raise InvalidContent(f"the state belongs to a round that does not precede it ({each})")
    return state


def asked(rounds: Rounds, state: KMeansState, through: int) -> dict[int, int]:
    """Clients that withdrew, up to a block, points that the state contains: the block of their first request."""
    since = rounds.rounds[state.round].opened.opened_at if state.round else 0
    found: dict[int, int] = {}
    for record in rounds.withdrawals:
        if since < record.at.block <= through and record.client in state.clients:
            found.setdefault(record.client, record.at.block)
    return found


def groups_of(
    rounds: Rounds, current: RoundRecords, before: KMeansState, config: FederationConfig
) -> tuple[Group, ...]:
    """Leaf positions of those who are summed together in a sealed round; empty: all are.

    After a sum that could not be decoded there are twice as many groups as before, none smaller than the terms allow.
    """
    size, least = len(current.order), crowd_of(current, config)
    wanted = before.groups << min(_failures(rounds, before, current.number), _MOST_DOUBLINGS)
    count = max(1, min(wanted, size // max(least, terms_of(config).smallest_group)))
    if count == 1:
        return ()
    ends = [size * place // count for place in range(count + 1)]
    return tuple(Group.of(range(start, end), least) for start, end in pairwise(ends))


def exchange_of(inputs: RoundInputs[KMeansState]) -> Exchange:
    """Expected content of the round's sums. The list of shares must be final."""
    current, settings = inputs.current, terms_of(inputs.config)
    before = inputs.previous
    opened = current.opened.opened_at
    if opened < first_block(inputs.rounds, before, current.number, settings):
        return Exchange(settings, before)
    groups = [[current.order[position] for position in group.positions] for group in inputs.graph.groups]
    stated = {client: current.draws[client].samples for client in current.shares}
    key = hashlib.sha256(_KEY + inputs.graph.context.to_bytes() + current.fixed_seed.seed).digest()
    return exchange(settings, before, groups, stated, asked(inputs.rounds, before, opened), key)


def first_block(rounds: Rounds, before: KMeansState, number: int, settings: KMeansSettings) -> int:
    """From which block on round ``number`` may sum anything, if it is opened then.

    A coordinator that opened rounds faster would be shown more points than its members agreed to.
    """
    tried = [before.round] if before.round else []
    later = (each for each in rounds.rounds.values() if before.round < each.number < number)
    tried += [each.number for each in later if each.commits and not each.stands]
    return rounds.rounds[tried[-1]].opened.opened_at + settings.gather_blocks if tried else 0


def due(rounds: Rounds, state: KMeansState, block: int, settings: KMeansSettings) -> int | None:
    """From which block on the next round is to be opened; None: nobody waits for one."""
    requests = asked(rounds, state, block)
    new = [
        member.active_from
        for client, member in rounds.members.items()
        if client not in state.clients and not rounds.left(client)
    ]
    waiting = [*requests.values(), *new]
    if not waiting:
        return None
    latest = rounds.last
    pending = [since for since in waiting if since > latest.opened.opened_at]
    if pending:
        when = min(pending) + settings.gather_blocks
    else:
        held = _held_since(rounds, min(requests.values())) if requests else latest.number - state.whole
        # The wait for a member that never answers doubles each time, or rounds would be opened for it for ever.
        doublings = min(max(0, held - 1), _MOST_DOUBLINGS)
        when = (latest.voided or latest.ending).at.block + (settings.retry_blocks << doublings)
    return max(when, first_block(rounds, state, latest.number + 1, settings))


def _held_since(rounds: Rounds, block: int) -> int:
    return sum(each.opened.opened_at >= block for each in rounds.rounds.values())


def _failures(rounds: Rounds, before: KMeansState, number: int) -> int:
    """Rounds between the state and round ``number`` that failed though enough committed, as where no sum decodes."""
    between = (each for each in rounds.rounds.values() if before.round < each.number < number)
    return sum(each.is_spoilt(rounds.quorum) for each in between)
