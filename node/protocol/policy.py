"""What an honest member refuses although the law allows it: functions of the records, the terms and what was computed.

Each returns why, in one clause; nothing where nothing is in the way. The privacy budget's own figures, and whether it
lets a client draw, are ``spending``'s.

Whoever can keep members out of a round (a coordinator, an admin, whoever censors transactions) could leave a client
alone among colluders: a round without enough of the members that it knows may be a trap. So a client takes part only
where at least a share ``membership.least`` of the members that it can count on has drawn.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from fedgrove.chain.records import Closed, Replaced
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.masking.survivors import needed_secrets
from fedgrove.node.privacy.records import difference
from fedgrove.node.protocol import members_metrics
from fedgrove.node.protocol.aggregation import spending as spending_of
from fedgrove.node.protocol.content import Metrics, head_fault
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.openings import Openings
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.spending import Spending
from fedgrove.node.protocol.terms import PPM, FederationConfig

LOOK_BACK = 3
_DEVIATIONS = 3.0


def strangers(rounds: Rounds, current: RoundRecords, config: FederationConfig) -> list[int]:
    """Clients of a sealed round that are none of the members named in the terms; none where they name nobody."""
    named = config.membership.members if config.membership.mode == "named" else ()
    return [client for client in current.order if named and rounds.members[client].account not in named]


def known_members(rounds: Rounds, current: RoundRecords, config: FederationConfig) -> set[str]:
    """Accounts of the members that a client counts on to be in a round.

    Those that the terms name; where an admin approves members, all that were members when the round opened or ever
    committed in a round that stands, so that no revocation makes them fewer; or else who committed in one of the last
    rounds that stand. A member that leaves is counted on in one more round, so that nobody is alone by surprise.
    """
    standing = [each for each in rounds.rounds.values() if each.stands and each.number < current.number]
    match config.membership.mode:
        case "named":
            found = set(config.membership.members)
        case "approved":
            found = _accounts(rounds, {*current.known, *(client for each in standing for client in each.commits)})
        case "open":
            found = _accounts(rounds, {client for each in standing[-LOOK_BACK:] for client in each.commits})
    last = standing[-1].ending.at.block if standing else 0
    left = {each.client for each in rounds.withdrawals if not each.points and each.at.block < last}
    return found - _accounts(rounds, left)


def _accounts(rounds: Rounds, clients: Iterable[int]) -> set[str]:
    return {rounds.members[client].account for client in clients}


def attendance_fault(rounds: Rounds, current: RoundRecords, config: FederationConfig) -> str:
    """Why a client must not take part in a sealed round, given who has drawn.

    Where a sample is drawn, chance may leave out more than usual: three standard deviations are allowed for.
    """
    unknown = strangers(rounds, current, config)
    if unknown:
        return f"client {unknown[0]} is not a member that the terms name (membership.members)"
    known, rate = known_members(rounds, current, config), current.opened.sampling_rate / PPM
    # Accounts that an admin approves for the occasion make nobody safe: half of those that took part are needed, too.
    for counted in (known, known & _seen(rounds, current)) if config.membership.mode == "approved" else (known,):
        expected = rate * len(counted)
        least = config.membership.least * expected - _DEVIATIONS * math.sqrt(expected * (1 - rate))
        present = len(counted & _accounts(rounds, current.order))
        if present < least:
            return (
                f"only {present} of the {len(counted)} members that it counts on have drawn, but "
                f"{math.ceil(least)} are needed (membership.least)"
            )
    return ""


def _seen(rounds: Rounds, current: RoundRecords) -> set[str]:
    """Accounts that committed in an earlier round that stands."""
    standing = (each for each in rounds.rounds.values() if each.stands and each.number < current.number)
    return _accounts(rounds, {client for each in standing for client in each.commits})


def refusals(rounds: Rounds, current: RoundRecords, config: FederationConfig) -> Iterator[str]:
    """Why honest members refuse a sealed round, a clause each, as far as the ledger tells: nothing of it may close."""
    checks = (attendance_fault(rounds, current, config), standstill(rounds, config, current.number))
    return filter(None, checks)


def standstill(rounds: Rounds, config: FederationConfig, number: int, released: Collection[int] = ()) -> str:
    """That the federation stands still, and why, in one clause; empty where it does not. See ``sums_used_up``."""
    why = sums_used_up(rounds, config, number, released)
    return f"it stands still: {why}" if why else ""


def sums_used_up(rounds: Rounds, config: FederationConfig, number: int, released: Collection[int] = ()) -> str:
    """Why nobody takes part in a round, or opens it, as too many sums were opened; empty where that is not so.

    Under a mechanism of privacy every opened sum counts in the budget instead. Clusters and K-means have groups of
    their own, and count their repeats themselves. Where updates have bounds each holder counts for itself
    (``node.protocol.opened``).

    Parameters
    ----------
    released : collection of int
        Rounds in which the client that asks published shares, by its journal.
    """
    counts = config.method.name == "training" and config.privacy is None and config.bounds is None
    return Openings(rounds, config, released).refusal(number) if counts else ""


def opening_fault(
    rounds: Rounds, current: RoundRecords, terms: bytes, first_model: bytes, ending: str, opener: str = ""
) -> str:
    """Why a client must not take part in a round that was opened like this.

    Parameters
    ----------
    terms, first_model : bytes
        The digests of the terms that the client agreed to, and of the model that training starts from under them.
    ending : str
        Why the training has ended, in one clause; empty while it goes on.
    opener : str
        The account that alone may open rounds, where only the coordinator can close them; empty: the law decides.
    """
    if opener and current.opened.at.author != opener:
        return "the coordinator: somebody else opened the round, which only the coordinator can close"
    if current.opened.config_digest != terms:
        return "the coordinator: it opened the round under terms this client did not agree to"
    if rounds.base is None and current.opened.model_digest != first_model:
        return "its members: training does not start from the model in the terms"
    return f"the coordinator: it opened the round after the training had ended, as {ending}" if ending else ""


# --- budget, and the end of a training --------------------------------------------------------------------------------


def overspent(method: Method, inputs: RoundInputs) -> str:
    """Clause that names the clients whose privacy budget the round exceeds: it must not release anything or close."""
    return spending_of(method, inputs).overspent(inputs.current) if method.accounting.budget is not None else ""


def nothing_to_sum(method: Method, inputs: RoundInputs) -> str:
    """Why nothing of a round may be summed, in one clause: holders must release nothing. Empty where something may."""
    try:
        needed_secrets(inputs.graph, inputs.sharers, inputs.survivors)
    except MaskingRefused as fault:
        return str(fault)
    return overspent(method, inputs)


def no_round_follows(
    rounds: Rounds, config: FederationConfig, ending: Callable[[], str], spending: Callable[[], Spending]
) -> str:
    """Why no round follows the latest one; empty when one can, or while a round runs.

    Parameters
    ----------
    ending : callable
        Why the terms' patience lets none follow (``MetricsWatch.ending``); asked where rounds are left.
    spending : callable
        The spent part of the privacy budget; asked last.
    """
    latest = rounds.latest
    if latest is None or latest.end is None:
        return ""
    if rounds.all_held(config.rounds_to_close, config.federation.repeats):
        return "all rounds have ended"
    why = ending()
    return f"the training has ended, as {why}" if why else spending().exhausted(latest.number + 1)


# --- closings ---------------------------------------------------------------------------------------------------------

_SENTENCES = {"model": "its model is wrong: {}", "metrics": "its metrics are wrong: {}", "privacy": "{}"}


@dataclass(frozen=True)
class ClosingFault:
    """The fault of a closed round.

    Attributes
    ----------
    part : str
        ``model``, ``metrics`` or ``privacy``.
    reason : str
        What is wrong with that part, in one clause.
    """

    part: Literal["model", "metrics", "privacy"]
    reason: str

    def __str__(self) -> str:
        return _SENTENCES[self.part].format(self.reason)


def _other_model(inputs: RoundInputs) -> str:
    """Why the model that a round closed with is not the right one."""
    if inputs.only_evaluates:
        return "the round only evaluates the model that it began with, and closed with another"
    made = "the sum" if inputs.config.server is None else "the server's step on the sum"
    return f"it is not {made} of the survivors' updates, bit for bit"


def closing_fault(
    method: Method,
    inputs: RoundInputs,
    right: Outcome,
    result: Closed | Replaced,
    stated: Metrics,
    block_hash: Callable[[int], bytes],
) -> ClosingFault | None:
    """The check that a closed round is right, used by clients, coordinators and audits alike.

    Parameters
    ----------
    right : Outcome
        What the round came to, recomputed from the recovery record that its metrics name.
    result : Closed or Replaced
        What the ledger says that it came to.
    stated : Metrics
        Behind the digest in it.
    block_hash : callable
        Maps the number of a block to its hash.

    Raises
    ------
    StoreError
    """
    before = inputs.stated if inputs.config.federation.patience else None
    if before is not None and before.members is not None and before.members.last:
        return ClosingFault("model", f"the training had ended before this round, as {before.members.ending}")
    if method.model_digest(right.model) != result.model_digest:
        return ClosingFault("model", _other_model(inputs))
    if stated.round != inputs.current.number:
        return ClosingFault("metrics", f"they belong to round {stated.round}")
    committed = inputs.current.deadlines(inputs.config.ledger).commit_end
    wrong = difference(stated.privacy, right.privacy) or members_metrics.difference(stated.members, right.members)
    if not wrong and stated.raised != right.raised:
        wrong = "how many members could not train is not the sum of what they sent"
    wrong = wrong or method.statement_fault(right.model, stated)
    wrong = wrong or head_fault(stated, block_hash, committed, result.at.block - 1)
    if wrong:
        return ClosingFault("metrics", wrong)
    beyond = overspent(method, inputs)
    return ClosingFault("privacy", beyond) if beyond else None
