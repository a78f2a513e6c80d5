"""Between rounds and up to the order: absences are reported, a round is opened, its seed fixed, its order sealed."""

from dataclasses import dataclass

from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.face.ledger import MAX_BARRED, MAX_REPORT
from fedgrove.chain.records import Phase
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Kind, Step, missing, name_clients
from fedgrove.node.roles.context import Turn
from fedgrove.node.roles.coordinator.context import CoordinatorUnit, skipped


@dataclass
class ReportAbsences(CoordinatorUnit):
    """Reports absences of a closed round."""

    _unreported: int = 0

    def act(self, turn: Turn) -> Step | None:
        """Report; None when there is nothing to report."""
        absent = self.absent(turn.current)
        if not absent:
            return None
        accounts = [self.context.view.rounds.members[client].account for client in absent]
        try:
            receipt = self.context.ledger.report_absences(turn.current.number, accounts)
        except ContractRevert as refusal:
            # Training does not wait for a report: another member may have been quicker.
            self._unreported = turn.current.number
            return Step.wait("open", f"nobody: the absences were not reported ({refusal})", turn.block + 1)
        return Step.act("open", f"reported absent: {name_clients(absent)}", receipt.gas_used)

    def absent(self, current: RoundRecords) -> list[int]:
        """Clients to report of a closed round: all of its order without a commitment, unless they were reported."""
        if current.number == self._unreported or not current.stands or current.absences:
            return []
        absent = [client for client in current.order if client not in current.commits]
        return absent if len(absent) <= MAX_REPORT else []


class Open(CoordinatorUnit):
    """Opens rounds, until none can follow."""

    def first(self) -> Step:
        """Open the first round, from the initial model, when enough members are active."""
        view, members = self.context.view, self.context.members
        active = [each for each in view.rounds.members.values() if each.active_from <= view.block + 1]
        if len(active) < members:
            return Step.wait("open", f"members to register: {len(active)} of the {members} needed are active")
        return self._open(cid_of(self.context.initial_model).digest)

    def act(self, turn: Turn) -> Step:
        """Open the next round when it is due, after one that has ended."""
        over = self.context.over()
        if over:
            return Step.wait("done", f"nobody: {over}")
        due = self._due(turn)
        if due is None:
            return Step.wait("idle", "members: nothing has changed since the last round", kind=Kind.IDLE)
        if turn.block < due:
            return Step.wait("open", "absent or new members: the next round is for them", due)
        return self._open(self.context.view.rounds.model_digest)

    def _due(self, turn: Turn) -> int | None:
        """From which block on the next round is to be opened; None: nobody needs one."""
        rounds, method = self.context.view.rounds, self.context.method
        return method.schedule.due(
            rounds, lambda: method.fetch_model(self.context.store, rounds.model_digest), turn.block
        )

    def _open(self, model_digest: bytes) -> Step:
        self.context.store.put(self.context.initial_model)
        self.context.store.put(self.context.config.to_bytes())
        view = self.context.view
        number = view.rounds.latest.number + 1 if view.rounds.latest else 1
        receipt = self.context.ledger.open(model_digest, view.barred(number)[:MAX_BARRED])
        return Step.act("open", "opened a round", receipt.gas_used, Kind.OPENED)


class SealOrder(CoordinatorUnit):
    """Takes a round from its opening to a sealed order, or skips it where too few have drawn."""

    def act(self, turn: Turn) -> Step:
        """Fix the seed, wait for draws, and seal or skip."""
        if turn.phase is Phase.SEEDING:
            return Step.wait("seeding", "the chain: the round's seed block", turn.deadlines.seed_block)
        if turn.phase is Phase.DRAW:
            return self._draws(turn)
        if len(turn.current.draws) < self.context.view.settings.quorum:
            receipt = self.context.ledger.skip(turn.current.number)
            return skipped(f"{len(turn.current.draws)} drawn", receipt.gas_used)
        return self._seal(turn)

    def _draws(self, turn: Turn) -> Step:
        """Fix the seed, once, and wait for the members to draw."""
        if turn.current.seed is None:
            receipt = self.context.ledger.fix_seed(turn.current.number)
            return Step.act("seeding", "fixed the seed", receipt.gas_used)
        rounds = self.context.view.rounds
        awaited = (client for client in rounds.members if not rounds.left(client))
        return Step.wait("draw", missing(awaited, turn.current.draws, "draw"), turn.deadlines.draw_end)

    def _seal(self, turn: Turn) -> Step:
        current, order_block = turn.current, turn.deadlines.order_block
        if turn.block < order_block:
            # Sealed only once it is confirmed, so that the order does not change under those who act on it.
            return Step.wait("seal", "the chain: the block that orders the clients", order_block)
        receipt = self.context.ledger.seal(current.number, current.tickets, order_block)
        return Step.act("seal", f"sealed the order of {len(current.draws)}", receipt.gas_used)
