"""Where a federation stands: what ``fedgrove status`` tells."""

from dataclasses import asdict, dataclass

from chain.ledger import Ledger
from chain.records import Closed, Failed, Skipped
from node.rounds import RoundRecords
from node.step import missing
from node.view import LedgerView


@dataclass(frozen=True)
class Standing:
    """Round and phase, the clients that have acted in it, who is waited for, until which block (0: no deadline)."""

    block: int
    members: int
    round: int
    phase: str
    acted: tuple[int, ...]
    waiting: str
    until: int
    account: str = ""

    def to_dict(self) -> dict:
        return asdict(self)


def standing(ledger: Ledger, account: str | None = None) -> Standing:
    """Read the ledger and tell where the latest round stands."""
    view = LedgerView(ledger)
    entry = view.refresh()
    members = len(view.rounds.members)
    mine = _account(view, entry, account) if account else ""
    if entry is None:
        return Standing(view.block, members, 0, "open", (), "the coordinator to open the first round", 0, mine)
    phase, acted, waiting, until = _phase(view, entry)
    return Standing(view.block, members, entry.number, phase, tuple(sorted(acted)), waiting, until, mine)


def _phase(view: LedgerView, entry: RoundRecords) -> tuple[str, list[int], str, int]:
    ends = {Closed: "closed", Skipped: "skipped", Failed: "failed"}
    if entry.end is not None:
        acted = list(entry.commits)
        return ends[type(entry.end)], acted, "the coordinator to open the next round", 0
    deadlines, block = view.deadlines(entry), view.block
    if block < deadlines.seed_block:
        return "seeding", [], "the round's seed block", deadlines.seed_block
    if entry.sealed is None and block < deadlines.draw_end:
        return "draw", list(entry.draws), missing(view.rounds.members, entry.draws, "draw"), deadlines.draw_end
    if entry.sealed is None:
        return _until("seal", [], "anyone to seal the order", block, deadlines.seal_end)
    if block < deadlines.share_end:
        return "share", list(entry.shares), missing(entry.draws, entry.shares, "share"), deadlines.share_end
    if block < deadlines.commit_end:
        return "commit", list(entry.commits), missing(entry.shares, entry.commits, "commit"), deadlines.commit_end
    if entry.recovered is None:
        waiting = f"{missing(entry.draws, entry.releases, 'release shares')}, the coordinator to recover"
        return _until("recover", list(entry.releases), waiting, block, deadlines.recover_end)
    return _until("close", list(entry.releases), "the coordinator to close", block, deadlines.close_end)


def _until(phase: str, acted: list[int], waiting: str, block: int, end: int) -> tuple[str, list[int], str, int]:
    if block >= end:
        return "overdue", acted, "anyone to record the round as failed", 0
    return phase, acted, waiting, end


def _account(view: LedgerView, entry: RoundRecords | None, account: str) -> str:
    member = view.rounds.member(account)
    if member is None:
        return f"{account} is not registered"
    parts = [f"client {member.client}"]
    if entry is not None:
        names = {"drew": entry.draws, "shared": entry.shares, "committed": entry.commits, "released": entry.releases}
        done = [name for name, by_client in names.items() if member.client in by_client]
        parts.append(f"in round {entry.number}: {', '.join(done) or 'nothing yet'}")
    return ", ".join(parts)
