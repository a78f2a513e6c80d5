"""Publish: the masked update leaves the machine, now that its commitment is confirmed."""

from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client.context import ClientContext, ClientTurn
from fedgrove.node.roles.client.phase import ClientPhase


class Publish:
    """Puts the masked update into the store (spec 02, step 4)."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._published = 0

    def act(self, turn: ClientTurn) -> Step | ClientPhase:
        """Publish the update that the ledger lists; ``RECOVER`` is next when it is published."""
        store, number = self._context.store, turn.current.number
        listed = turn.current.commits[turn.client].digest
        if self._published != number and store.has(listed):
            store.pin(listed)  # a process that was killed while it published may not have come to that
            self._published = number
        if self._published == number:
            return ClientPhase.RECOVER
        masked = self._context.disclosure.published(turn.current, turn.client)
        if masked is None:
            return turn.sit_out("this client: its masked update is missing from the journal")
        store.put(masked)
        self._published = number
        return Step("commit", acted="published its masked update")
