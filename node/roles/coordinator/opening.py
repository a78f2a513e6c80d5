"""Between rounds and up to the order: a round is opened, its seed fixed, its order sealed."""

from fedgrove.chain.face.ledger import MAX_BARRED
from fedgrove.chain.records import Phase
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.protocol.clock import draw_window_end
from fedgrove.node.protocol.policy import standstill
from fedgrove.node.protocol.step import Kind, Step, missing
from fedgrove.node.roles.context import Turn
from fedgrove.node.roles.coordinator.context import CoordinatorUnit, skipped


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
        still = standstill(self.context.view.rounds, self.context.config, turn.current.number + 1)
        if still:
            return Step.wait("open", f"people: {still}")
        due = self._due(turn)
        if due is None:
            return Step.wait("idle", "members: nothing has changed since the last round", kind=Kind.IDLE)
        if turn.block < due:
            return Step.wait("open", "absent or new members: the next round is for them", due)
        view = self.context.view
        after = turn.current.ending.at.block + view.rounds.pause(view.settings.draw_window)
        if turn.block < after:
            why = f"{view.rounds.in_vain} rounds in a row left no model"
            return Step.wait("open", f"members that are away, or spoil sums: {why}", after)
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
        view, current = self.context.view, turn.current
        window_end = draw_window_end(current, view.settings)
        awaited = missing(current.able, current.draws, "draw")
        if turn.block < window_end:
            return Step.wait("draw", awaited, window_end)
        # Skipped only where that can help: a round of the same members would wait for the same ones.
        if self.context.may_skip(current):
            return skipped(f"{len(current.draws)} drawn", self.context.ledger.skip(current.number).gas_used)
        quorum = view.settings.quorum
        return Step.wait(
            "draw", f"{awaited}: {len(current.draws)} of the {quorum} needed have", turn.deadlines.draw_end
        )

    def _seal(self, turn: Turn) -> Step:
        current, order_block = turn.current, turn.deadlines.order_block
        if turn.block < order_block:
            # Sealed only once it is confirmed, so that the order does not change under those who act on it.
            return Step.wait("seal", "the chain: the block that orders the clients", order_block)
        receipt = self.context.ledger.seal(current.number, current.tickets, order_block)
        return Step.act("seal", f"sealed the order of {len(current.draws)}", receipt.gas_used)
