"""Inputs of a round with clusters: the previous state, its groups, and the messages that it reads."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache

from fedgrove.chain.crypto.signatures import is_signed_by
from fedgrove.chain.records import Drawn, Voided
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.graph import MIN_CLIENTS, Group
from fedgrove.node.masking.keys import SECRET_BYTES
from fedgrove.node.masking.ring import WORD
from fedgrove.node.masking.survivors import summed_groups
from fedgrove.node.masking.x_only import is_key
from fedgrove.node.methods.procfl import suspicion
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.committee import Ballot, Opens, opened_ballot, vote_bytes
from fedgrove.node.methods.procfl.comparing import blinded_bytes
from fedgrove.node.methods.procfl.course import Course
from fedgrove.node.methods.procfl.evidence import Rule
from fedgrove.node.methods.procfl.mailbox import OVERHEAD
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.methods.procfl.terms import labels_of, terms_of
from fedgrove.node.protocol.cells import crowd_of, crowd_of_all
from fedgrove.node.protocol.content import fetch_available, fetch_metrics
from fedgrove.node.protocol.round_inputs import RoundInputs, only_evaluates
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig

_SESSION = b"fedgrove comparison 1"
# A role reads the last state in each of its steps: one that is not larger stays parsed.
_SMALL_BYTES = 1 << 20


def _fetch_state(store: ContentReader, digest: bytes, config: FederationConfig) -> ClusterState:
    data = store.fetch(digest, config.max_blob_bytes)
    return _small_state(data) if len(data) <= _SMALL_BYTES else ClusterState.from_bytes(data)


@lru_cache(maxsize=4)
def _small_state(data: bytes) -> ClusterState:
    return ClusterState.from_bytes(data)


def course_of(config: FederationConfig) -> Course:
    """The clusters' part of the terms."""
    return Course(terms_of(config), config.federation.rounds, labels_of(config))


def state_before(
    rounds: Rounds,
    current: RoundRecords,
    config: FederationConfig,
    store: ContentReader,
    model: ClusterState | None = None,
) -> ClusterState:
    """State of the federation when a round opened: the last round's result and the statements about it.

    Raises StoreError, InvalidContent.
    """
    base = rounds.base_of(current.number)
    if base is not None:
        state = state_after(base, config, store, model)
        return state.at_rest if is_over(config, rounds, current.number, store) else state
    return course_of(config).after_statement(model or _fetch_state(store, current.opened.model_digest, config), None)


def is_over(config: FederationConfig, rounds: Rounds, number: int, store: ContentReader) -> bool:
    """Whether members only evaluate the last models in a round; raises StoreError or InvalidContent."""
    base = rounds.base_of(number)
    return only_evaluates(
        config, rounds, number, lambda: fetch_metrics(store, base.result.metrics_digest) if base else None
    )


def state_after(
    base: RoundRecords, config: FederationConfig, store: ContentReader, model: ClusterState | None = None
) -> ClusterState:
    """State of the federation after a closed round: its model, possibly cached, and the statements about it.

    Raises StoreError, InvalidContent.
    """
    state = model or _fetch_state(store, base.result.model_digest, config)
    metrics = fetch_metrics(store, base.result.metrics_digest)
    return accepted(config, state, base.result.model_digest, Stated.of(metrics.stated))


def accepted(config: FederationConfig, state: ClusterState, digest: bytes, stated: Stated | None) -> ClusterState:
    """The state when what was stated of it has been accepted. Nobody looks into what the coordinator did not sign.

    Parameters
    ----------
    digest : bytes
        Of the state, as the ledger has it.

    Raises
    ------
    InvalidContent
        It is missing, cannot be true, is not called for, or is not the coordinator's.
    """
    course = course_of(config)
    course.check_called_for(state, stated)
    if stated is None:
        return course.after_statement(state, stated)
    if not is_signed_by(terms_of(config).signer, stated.message(digest), bytes.fromhex(stated.signature)):
        raise InvalidContent("the statement on the clusters is not signed by procfl.signer")
    return course.after_statement(state, stated)


def seated(
    rounds: Rounds,
    current: RoundRecords,
    config: FederationConfig,
    state: ClusterState,
    trained: Callable[[], RoundInputs[ClusterState]],
) -> ClusterState:
    """In a round to show, the state with those drawn who show, and to whom.

    Parameters
    ----------
    trained : callable
        The public inputs of the round that is judged.
    """
    lots = lots_of(rounds, current.number) if state.stage == "show" else None
    if lots is None:
        return state
    opens = opened_by(trained()) if terms_of(config).shown == "upload" else None
    return suspicion.seated(terms_of(config), state, lots, opens)


def groups_of(
    rounds: Rounds, current: RoundRecords, state: ClusterState, config: FederationConfig
) -> tuple[Group, ...]:
    """Leaf positions of those who are summed together in a sealed round: no fewer than hide each other."""
    least = least_of(rounds, current, config)
    groups = course_of(config).groups(state, numbers_in(current.draws), least)
    return tuple(Group.of(current.positions(group), least) for group in groups)


def least_of(rounds: Rounds, current: RoundRecords | None, config: FederationConfig) -> int:
    """The fewest of a cluster that are summed in a round: as many as hid each other when its members were compared.

    Who registers after the first round that stands is in no cluster: newcomers neither hide members nor stop sums.

    Parameters
    ----------
    current : RoundRecords or None
        None: of the next round, as far as that is known before anybody has drawn.
    """
    first = next((each for each in rounds.rounds.values() if each.stands), None)
    if current is None:
        return crowd_of_all(first.registered if first is not None else len(rounds.members), config)
    if first is not None and first.number < current.number and current.draws_all:
        return crowd_of(first, config)
    return crowd_of(current, config)


def numbers_in(draws: Mapping[int, Drawn]) -> dict[int, int]:
    """The number that each client stated when it drew, of those that can mask.

    With a key that is not on the curve nobody masks, and a group with a member without masks is not summed.
    """
    return {client: draw.samples for client, draw in draws.items() if is_key(draw.mask_key)}


def lots_of(rounds: Rounds, number: int) -> bytes | None:
    """Seed that decides who judges whom: the first after the accuracy fell; None if there is none yet.

    It stays the same when the round fails and is repeated: nobody is to have others drawn.
    """
    base = rounds.base_before(number)
    later = (each for each in rounds.rounds.values() if base.number < each.number <= number)
    return next((each.seed.seed for each in later if each.seed is not None), None)


def trained_round(inputs: RoundInputs[ClusterState]) -> RoundRecords:
    """The round of training that is judged in a round to show, or to vote."""
    base = inputs.rounds.base_before(inputs.current.number)
    return base if inputs.previous.stage == "show" else inputs.rounds.base_before(base.number)


def opened_by(trained: RoundInputs[ClusterState]) -> Opens:
    """Maps members that tell their mask secrets of a round of training to all whose uploads that opens.

    Masks of a pair follow from the secret of either; those of who dropped out are known from the recovery.
    """
    current, graph = trained.current, trained.graph
    survivors = {
        graph.client(position): {graph.client(other) for other in graph.neighbours[position]} & current.commits.keys()
        for positions in summed_groups(graph, trained.survivors)
        for position in positions
    }
    return lambda telling: telling | {client for client, partners in survivors.items() if partners <= telling}


def sums_before(
    round_inputs: RoundInputs[ClusterState], inputs: Callable[[RoundRecords], RoundInputs[ClusterState]]
) -> int:
    """In how many earlier rounds with the same work, which failed, somebody may know a sum.

    The difference of two sums of the same data, one of them without some client, is that client's. Whether enough
    shares were released the ledger does not say: holders may have kept theirs to themselves, and others in the store.
    So every round counts in which enough clients committed.

    Parameters
    ----------
    inputs : callable
        The public inputs of a sealed round.
    """
    placed = (inputs(each) for each in held_before(round_inputs) if each.commits)
    return sum(any(summed_groups(earlier.graph, earlier.survivors)) for earlier in placed)


def counts_sent_before(inputs: RoundInputs[ClusterState]) -> bool:
    """Whether somebody may know a sum of label counts already, which do not change from round to round.

    It may be of a round that fell with its base, too: what that was to do depended on the closing that is void.
    """
    earlier = (each for each in inputs.rounds.rounds.values() if each.number < inputs.current.number)
    voided = (each for each in earlier if isinstance(each.end, Voided))
    return any(len(each.commits) >= MIN_CLIENTS for each in (*held_before(inputs), *voided))


def held_before(inputs: RoundInputs[ClusterState]) -> list[RoundRecords]:
    """Earlier rounds with the same work as this one, which failed."""
    number, rounds = inputs.current.number, inputs.rounds
    base = rounds.base_of(number)
    after = base.number if base else 0
    return [each for each in rounds.rounds.values() if after < each.number < number]


def session_of(inputs: RoundInputs[ClusterState]) -> bytes:
    """Names the comparisons that a round of first messages begins."""
    digest = inputs.current.opened.config_digest
    return hashlib.sha256(_SESSION + inputs.graph.context.to_bytes() + digest).digest()


def first_message(inputs: RoundInputs[ClusterState], client: int) -> bytes:
    """A client's first message of its comparisons.

    Its set was there when the round of first messages closed. Who takes it away stops a round, but not the next: where
    the round is repeated, the message is empty, and the client like nobody.

    Raises StoreError.
    """
    digest, size = inputs.previous.sets[client]
    most = blinded_bytes(size)
    if inputs.current.number == inputs.rounds.base_before(inputs.current.number).number + 1:
        return inputs.store.fetch(bytes.fromhex(digest), most)
    return fetch_available(inputs.store, {client: bytes.fromhex(digest)}, most).get(client, b"")


def shown_to(inputs: RoundInputs[ClusterState], member: int, judge: int) -> bytes:
    """Context of what a member shows to a judge; the same when it is opened, a round later."""
    context, began, kind = inputs.graph.context, inputs.previous.began, terms_of(inputs.config).shown
    return f"fedgrove shown {kind} 1 {context.chain_id}/{context.ledger}/{began}/{member}/{judge}".encode()


def shown_bytes(config: FederationConfig, layout: Layout) -> int:
    """Length of what a member shows to one judge, sealed: the secret that opens its upload, or a model."""
    plain = SECRET_BYTES if terms_of(config).shown == "upload" else WORD.itemsize * layout.length
    return OVERHEAD + plain


def label_layout(labels: int) -> Layout:
    """Of a vector of label counts."""
    return Layout(("labels",), ((labels,),))


def ballots_in(data: bytes, cases: Iterable[Case], client: int, rule: Rule) -> dict[int, Ballot]:
    """A judge's ballots in what it uploaded, by cluster; those whose evidence does not open are void."""
    found: dict[int, Ballot] = {}
    own_cases = [case for case in cases if client in case.committee]
    if len(data) != sum(vote_bytes(len(case.members)) for case in own_cases):
        return found
    for case in own_cases:
        size = vote_bytes(len(case.members))
        own, data = data[:size], data[size:]
        with suppress(InvalidContent):
            found[case.cluster] = opened_ballot(own, client, len(case.members), rule)
    return found
