"""Current state of a federation, as ``fedgrove status`` reports it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.crypto.tree import EVERYONE
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.records import Closed, Phase
from fedgrove.chain.records.phases import Deadlines
from fedgrove.node.protocol.clock import draw_window_end, phase_of
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import missing
from fedgrove.node.status.participation import Participation, last_participation
from fedgrove.node.status.setbacks import Setbacks, setbacks


@dataclass(frozen=True)
class JudgedRound:
    """A closed round that some of its clients judge to have another result, or one that is void.

    ``void``: most of them say so and want no result, or it trained from a model that fell; ``replaced``: most of them
    named another result, which stands.
    """

    round: int
    by: tuple[int, ...]
    committed: int
    void: bool
    replaced: bool


@dataclass(frozen=True)
class Standing:
    """State of the latest round.

    Attributes
    ----------
    round, phase : int, str
        The latest round (0 before the first) and where it stands.
    acted : tuple of int
        Clients that have done this phase's part.
    waiting, until : str, int
        Who is waited for, and until which block (0: no deadline).
    judged : tuple of JudgedRound
        Every round whose closing some judge to be wrong, or that was voided.
    account : str
        How an account stands, if one was asked for.
    last : Participation or None
        What became of that account's part in the latest round that has ended.
    setbacks : Setbacks
        Rounds that left no model, and who was missing.
    """

    block: int
    members: int
    round: int
    phase: str
    acted: tuple[int, ...]
    waiting: str
    until: int
    setbacks: Setbacks
    judged: tuple[JudgedRound, ...] = ()
    finished: bool = False
    account: str = ""
    last: Participation | None = None

    def to_dict(self) -> dict:
        """By field, JSON-ready, with the sentences that people are warned with."""
        return asdict(self) | {"warnings": list(self.setbacks.warnings)}


def standing(
    ledger: Ledger,
    account: str | None = None,
    *,
    keys: Keys | None = None,
    view: LedgerView | None = None,
    on_request: bool = False,
) -> Standing:
    """Read the ledger and report the state of the latest round.

    Parameters
    ----------
    keys : Keys, optional
        Of that account: they say whether it was in a sample.
    view : LedgerView, optional
        Kept from one call to the next, it spares reading everything again.
    on_request : bool
        After the first model a round is opened only when a member asks to be forgotten, as K-means does.
    """
    view = view or LedgerView(ledger)
    current = view.refresh()
    terms = ledger.deployment.terms
    found = setbacks(view.rounds, terms, view.settings.draw_window)
    phase, acted, waiting, until = _phase(view, current, ledger.deployment.block, on_request)
    return Standing(
        block=view.block,
        members=len(view.rounds.known_now()),
        round=current.number if current else 0,
        phase=phase,
        acted=tuple(sorted(acted)),
        waiting="nobody: all rounds have ended" if found.ended else waiting,
        until=until,
        setbacks=found,
        judged=_judged(view),
        finished=found.ended,
        account=_account(ledger, view, current, account) if account else "",
        last=last_participation(ledger, view, account, keys) if account else None,
    )


def _phase(
    view: LedgerView, current: RoundRecords | None, founded: int, on_request: bool
) -> tuple[str, list[int], str, int]:
    if current is None:
        return "open", [], f"{_coordinator(view, founded)} to open the first round", 0
    deadlines = view.deadlines(current)
    phase = phase_of(current, deadlines, view.block + 1)
    acted: Iterable[int] = ()
    until = deadlines.last_block(phase)
    match phase:
        case Phase.SEEDING:
            waiting = "the round's seed block"
        case Phase.DRAW:
            acted, waiting = current.draws, _to_draw(view, current)
            window_end = draw_window_end(current, view.settings)
            until = window_end if view.block < window_end else 0  # then draws wait for the quorum, for months
        case Phase.SEAL:
            waiting = "anyone to seal the order"
        case Phase.SHARE:
            acted, waiting = current.shares, missing(current.draws, current.shares, "share")
        case Phase.COMMIT:
            acted, waiting = current.commits, missing(current.shares, current.commits, "commit")
        case Phase.VOUCH:
            acted, waiting = current.vouches, missing(current.commits, current.vouches, "vouch")
        case Phase.AFFIRM:
            acted, waiting = current.affirmations, missing(current.commits, current.affirmations, "affirm")
        case Phase.RECOVER:
            acted, waiting = current.releases, _to_recover(view, current, deadlines)
        case Phase.OVERDUE:
            acted, waiting = current.releases, "anyone to record the round as failed"
        case _:
            acted, waiting = current.commits, _to_open(view, current, on_request and phase is Phase.CLOSED)
    return phase.name.lower(), list(acted), waiting, until


def _to_recover(view: LedgerView, current: RoundRecords, deadlines: Deadlines) -> str:
    recoverer = f"{_coordinator(view, deadlines.affirm_end)} to close"
    holders = missing(current.commits, current.releases, "release shares")
    return recoverer if holders == "nobody" else f"{holders}, {recoverer}"


def _to_open(view: LedgerView, current: RoundRecords, on_request: bool) -> str:
    opener = _coordinator(view, (current.voided or current.ending).at.block)
    return f"{opener} to open the next round{', once a member asks to be forgotten' if on_request else ''}"


def _to_draw(view: LedgerView, current: RoundRecords) -> str:
    waiting = missing(current.able, current.draws, "draw")
    sampled = current.opened.sampling_rate < EVERYONE and waiting != "nobody"
    return f"{waiting}, if they are in the sample" if sampled else waiting


def _coordinator(view: LedgerView, since: int) -> str:
    """The roles that may act: the coordinator alone in the grace after block ``since``, then any active client."""
    alone = view.block < since + view.settings.coordinator_grace
    return "the coordinator" if alone else "the coordinator or any stand-by"


def _judged(view: LedgerView) -> tuple[JudgedRound, ...]:
    found = []
    for each in view.rounds.rounds.values():
        closed = isinstance(each.end, Closed)
        against = tuple(filter(each.overruled, each.judgements(Phase.CLOSED))) if closed else ()
        if each.replaced is not None:
            against = tuple(client for client in each.judgements(Phase.CLOSED) if not each.overruled(client))
        if against or each.voided is not None:
            void, replaced = each.voided is not None, each.replaced is not None
            found.append(JudgedRound(each.number, against, len(each.commits), void, replaced))
    return tuple(found)


def _account(ledger: Ledger, view: LedgerView, current: RoundRecords | None, account: str) -> str:
    member = view.rounds.member(account)
    coordinates = account == ledger.deployment.coordinator
    if member is None:
        return "the coordinator" if coordinates else f"{account} is not registered"
    parts = ["the coordinator"] * coordinates + [f"client {member.client}"]
    if current is not None:
        names = {
            "drew": current.draws,
            "shared": current.shares,
            "committed": current.commits,
            "released": current.releases,
        }
        done = [name for name, by_client in names.items() if member.client in by_client]
        parts.append(f"in round {current.number}: {', '.join(done) or 'nothing yet'}")
        idle = account in current.opened.barred and not member.bar(current.opened.opened_at)
        parts += [f"idle in round {current.number}"] if idle else []
    return ", ".join(parts)
