"""Seal: a client that has drawn waits for the order, and decides whether it stays in the round."""

from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client.context import ClientContext, ClientTurn
from fedgrove.node.roles.company import refusal


class AwaitSeal:
    """Waits for the order of the clients. Anyone may seal it, and the coordinator does."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context

    def act(self, turn: ClientTurn) -> Step:
        """Wait."""
        return Step.wait("seal", "anyone: the order of the round is not yet sealed", turn.deadlines.seal_end)


def reason_to_leave(context: ClientContext, turn: ClientTurn) -> str:
    """Reason why a client that has drawn leaves the round, as in ``Step.waiting``; empty if it stays.

    Asked in each phase after the draw, as the journal can be lost at any time. A client that has committed stays,
    whatever its company: its update is in the sum.
    """
    if context.journal.note(turn.current.number) is None:
        return "this client: its journal of the round is missing"
    if turn.current.sealed is None or turn.client in turn.current.commits:
        return ""
    alone = refusal(context.view.rounds, turn.current, context.config)
    return f"its members: this client refuses the round, {alone}" if alone else ""
