"""Open: a round starts from the model in force."""

from fedgrove.chain.ledger import MAX_BARRED
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.context import Turn
from fedgrove.node.roles.coordinator.context import CoordinatorContext


class Open:
    """Opens rounds, until none can follow."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context

    def first(self) -> Step:
        """Open the first round, from the initial model, when enough members are active."""
        view, members = self._context.view, self._context.members
        active = [each for each in view.rounds.members.values() if each.active_from <= view.block + 1]
        if len(active) < members:
            return Step.wait("open", f"members to register: {len(active)} of the {members} needed are active")
        return self._open(cid_of(self._context.initial_model).digest)

    def act(self, turn: Turn) -> Step:
        """Open the next round when it is due, after one that has ended."""
        over = self._context.over()
        if over:
            return Step.wait("done", f"nobody: {over}")
        due = self._due(turn)
        if due is None:
            return Step.wait("idle", "members: nothing has changed since the last round")
        if turn.block < due:
            return Step.wait("open", "absent or new members: the next round is for them", due)
        return self._open(self._context.view.rounds.model_digest)

    def _due(self, turn: Turn) -> int | None:
        """From which block on the next round is to be opened; None: nobody needs one."""
        rounds, method = self._context.view.rounds, self._context.method
        return method.schedule.due(
            rounds, lambda: method.fetch_model(self._context.store, rounds.model_digest), turn.block
        )

    def _open(self, model_digest: bytes) -> Step:
        self._context.store.put(self._context.initial_model)
        self._context.store.put(self._context.config.to_bytes())
        view = self._context.view
        number = view.rounds.latest.number + 1 if view.rounds.latest else 1
        receipt = self._context.ledger.open(model_digest, view.barred(number)[:MAX_BARRED])
        return Step("open", acted="opened a round", gas=receipt.gas_used)
