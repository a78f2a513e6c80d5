"""Share: a client seals shares of its secrets for the others, by which its masks come off if it drops out."""

from functools import partial

from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client.context import ClientContext, ClientTurn


class PublishShares:
    """Publishes the sealed shares, and lists them on the ledger (spec 02, step 3)."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context

    def act(self, turn: ClientTurn) -> Step:
        """Share."""
        blob = self._context.disclosure.shares(turn.current, turn.client)
        digest = self._context.store.put(blob).digest
        send = partial(self._context.ledger.share, turn.current.number, digest)
        return self._context.outbox.send(turn.current, "share", "shared", send)
