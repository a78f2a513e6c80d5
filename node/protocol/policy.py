"""What an honest member refuses although the law allows it: functions of the records, the terms and what was computed.

Each returns why, in one clause; nothing where nothing is in the way. The privacy budget's own figures, and whether it
lets a client draw, are ``spending``'s.

Whoever can keep members out of a round (a coordinator, an admin, whoever censors transactions) could leave a client
alone among colluders: a round without enough of the members that it knows may be a trap. So a client takes part only
where at least a share ``membership.least`` of the members that it can count on has drawn: those that the terms name, or
else those that committed in one of the last rounds that closed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fedgrove.chain.records import Closed
from fedgrove.common.errors import InvalidContent
from fedgrove.node.privacy.records import difference
from fedgrove.node.protocol import members_metrics
from fedgrove.node.protocol.aggregation import spending as spending_of
from fedgrove.node.protocol.content import Metrics, head_fault
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.spending import Spending
from fedgrove.node.protocol.terms import PPM, FederationConfig

LOOK_BACK = 3
_DEVIATIONS = 3.0


def strangers(rounds: Rounds, current: RoundRecords, config: FederationConfig) -> list[int]:
    """Clients of a sealed round that are none of the members named in the terms; none where they name nobody."""
    named = config.membership.members
    return [client for client in current.order if named and rounds.members[client].account not in named]


def known_members(rounds: Rounds, current: RoundRecords, config: FederationConfig) -> set[int]:
    """The members that a client counts on to be in a round."""
    named = config.membership.members
    if named:
        opened = current.opened.opened_at
        known = {
            client
            for client, member in rounds.members.items()
            if member.account in named and member.active_from <= opened
        }
    else:
        closed = [each for each in rounds.rounds.values() if each.stands and each.number < current.number]
        known = {client for each in closed[-LOOK_BACK:] for client in each.commits}
    return {client for client in known if not rounds.left(client, current.opened.opened_at)}


def attendance_fault(rounds: Rounds, current: RoundRecords, config: FederationConfig) -> str:
    """Why a client must not take part in a sealed round, given who has drawn.

    Where a sample is drawn, chance may leave out more than usual: three standard deviations are allowed for.
    """
    unknown = strangers(rounds, current, config)
    if unknown:
        return f"client {unknown[0]} is not a member that the terms name (membership.members)"
    known = known_members(rounds, current, config)
    rate = current.opened.sampling_rate / PPM
    expected = rate * len(known)
    least = config.membership.least * expected - _DEVIATIONS * math.sqrt(expected * (1 - rate))
    present = len(known.intersection(current.order))
    if present >= least:
        return ""
    return (
        f"only {present} of the {len(known)} members that it counts on have drawn, but "
        f"{math.ceil(least)} are needed (membership.least)"
    )


def opening_fault(rounds: Rounds, current: RoundRecords, terms: bytes, first_model: bytes, ending: str) -> str:
    """Why a client must not take part in a round that was opened like this.

    Parameters
    ----------
    terms, first_model : bytes
        The digests of the terms that the client agreed to, and of the model that training starts from under them.
    ending : str
        Why the training has ended, in one clause; empty while it goes on.
    """
    if current.opened.config_digest != terms:
        return "the coordinator: it opened the round under terms this client did not agree to"
    if rounds.base is None and current.opened.model_digest != first_model:
        return "its members: training does not start from the model in the terms"
    return f"the coordinator: it opened the round after the training had ended, as {ending}" if ending else ""


# --- budget, and the end of a training --------------------------------------------------------------------------------


def overspent(method: Method, inputs: RoundInputs) -> str:
    """Clause that names the clients whose privacy budget the round exceeds: it must not release anything or close."""
    return spending_of(method, inputs).overspent(inputs.current) if method.accounting.budget is not None else ""


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
    end: Closed,
    metrics: Callable[[], bytes],
    block_hash: Callable[[int], bytes],
    first: int,
) -> ClosingFault | None:
    """The check that a closed round is right, used by clients, coordinators and audits alike.

    Parameters
    ----------
    right : Outcome
        What the round came to, recomputed.
    end : Closed
        What the ledger says that it came to.
    metrics : callable
        Fetches the bytes that the closing names as its metrics; asked once the model is right.
    block_hash : callable
        Maps the number of a block, from ``first`` on, to its hash.

    Raises
    ------
    StoreError
    """
    before = inputs.stated if inputs.config.federation.patience else None
    if before is not None and before.members is not None and before.members.last:
        return ClosingFault("model", f"the training had ended before this round, as {before.members.ending}")
    if method.model_digest(right.model) != end.model_digest:
        return ClosingFault("model", _other_model(inputs))
    try:
        stated = Metrics.from_bytes(metrics())
    except InvalidContent as fault:
        return ClosingFault("metrics", str(fault))
    if stated.round != inputs.current.number:
        return ClosingFault("metrics", f"they belong to round {stated.round}")
    wrong = difference(stated.privacy, right.privacy) or members_metrics.difference(stated.members, right.members)
    wrong = wrong or method.statement_fault(right.model, stated) or head_fault(stated, block_hash, first, end)
    if wrong:
        return ClosingFault("metrics", wrong)
    beyond = overspent(method, inputs)
    return ClosingFault("privacy", beyond) if beyond else None
