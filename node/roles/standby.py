"""Stand-ins for the coordinator: the same work, a grace period later.

Any registered member may. Which of several stand-bys goes first is drawn anew for each round; the others then find the
work done. As a round's model is a function of the ledger and the store alone, it does not matter who closes it.
"""

from hashlib import sha256

from fedgrove.node.protocol.clock import coordinator_turn
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.coordinator import Coordinator


class Standby(Coordinator):
    """A coordinator that acts only when the first one has missed its turn; its account must be a member's."""

    @property
    def finished(self) -> bool:
        """All rounds have ended, or those that sum something of this member, which has left."""
        return self._has_left() or super().finished

    def _act(self, current: RoundRecords | None) -> Step:
        if current is None:
            return Step.wait("standby", "the coordinator: only it may open the first round")
        if self._has_left():
            return Step.wait("done", "nobody: this member has withdrawn its data and left")
        if current.end is not None and self.context.opener:
            return Step.wait("standby", "the coordinator: only it can close the next round, so it alone opens it")
        since, window = coordinator_turn(current, self.view.deadlines(current), self.view.settings)
        pause = self.view.rounds.pause(self.view.settings.draw_window) if current.end is not None else 0
        turn = since + pause + self._patience(current, window)
        if self.view.block < turn:
            return Step.wait("standby", "the coordinator: it acts first", turn)
        if not self._may(current):
            return Step.wait("standby", "the coordinator, or another stand-by: this account may not act in its place")
        return super()._act(current)

    def _has_left(self) -> bool:
        member, current = self.view.rounds.member(self.account), self.view.rounds.latest
        if member is None or current is None or not member.left:
            return False
        return current.end is not None or member.client not in current.draws

    def _may(self, current: RoundRecords) -> bool:
        """Whether the ledger lets this account act: to close, one of those who committed, else an active member."""
        if current.end is not None or current.sealed is None:
            return self.view.law.is_active(self.account, self.view.block)
        member = self.view.rounds.member(self.account)
        return member is not None and member.client in current.commits and not self.view.law.is_struck(self.account)

    def _patience(self, current: RoundRecords, window: int) -> int:
        """Blocks to leave to the coordinator, and to other stand-bys: at most three quarters of the window."""
        grace = self.view.settings.coordinator_grace
        if current.end is None and current.sealed is None:
            grace = min(grace, window // 2)  # anybody may seal at any time: leaving it to one saves gas
        room = max(1, (window - grace) // 2)
        lot = sha256(f"{current.number}/{self.account}".encode()).digest()
        if current.end is None and current.sealed is not None:
            return self.view.law.grace() + self.view.law.closing_lot(current, self.account)
        return grace + int.from_bytes(lot[:8], "big") % room
