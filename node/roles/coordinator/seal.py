"""Seal: the seed is fixed, members draw, and the order of those that drew is sealed."""

from fedgrove.node.protocol.step import Step, missing
from fedgrove.node.roles.context import Turn
from fedgrove.node.roles.coordinator.context import CoordinatorContext


class SealOrder:
    """Takes a round from its opening to a sealed order, or skips it where too few have drawn."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context

    def act(self, turn: Turn) -> Step:
        """Fix the seed, wait for draws, and seal or skip."""
        if turn.block < turn.deadlines.seed_block:
            return Step.wait("seeding", "the chain: the round's seed block", turn.deadlines.seed_block)
        if turn.block < turn.deadlines.draw_end:
            return self._draws(turn)
        if len(turn.current.draws) < self._context.view.settings.quorum:
            receipt = self._context.ledger.skip(turn.current.number)
            return Step("seal", acted=f"skipped the round: {len(turn.current.draws)} drawn", gas=receipt.gas_used)
        return self._seal(turn)

    def _draws(self, turn: Turn) -> Step:
        """Fix the seed, once, and wait for the members to draw."""
        if turn.current.seed is None:
            receipt = self._context.ledger.fix_seed(turn.current.number)
            return Step("seeding", acted="fixed the seed", gas=receipt.gas_used)
        rounds = self._context.view.rounds
        awaited = (client for client in rounds.members if not rounds.left(client))
        return Step.wait("draw", missing(awaited, turn.current.draws, "draw"), turn.deadlines.draw_end)

    def _seal(self, turn: Turn) -> Step:
        current, order_block = turn.current, turn.deadlines.order_block
        if turn.block < order_block:
            # Sealed only once it is confirmed, so that the order does not change under those who act on it.
            return Step.wait("seal", "the chain: the block that orders the clients", order_block)
        receipt = self._context.ledger.seal(current.number, current.tickets, order_block)
        return Step("seal", acted=f"sealed the order of {len(current.draws)}", gas=receipt.gas_used)
