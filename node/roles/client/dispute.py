"""Dispute: a client recomputes the closed round whose model it is to train from, and refuses what is wrong."""

from functools import partial
from hashlib import sha256

from fedgrove.chain.crypto import vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.records import Closed
from fedgrove.ipfs.store import NotFound
from fedgrove.node.protocol.closing import evidence
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.roles.client.context import ClientContext, ClientTurn


class Dispute:
    """Refuses the model in force, and any model trained from it, if its round is wrong."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context

    def act(self, turn: ClientTurn) -> Step | None:
        """Dispute a closed round that is wrong; None when all is well.

        Only clients that committed in it can dispute it; the others wait for them.
        """
        rounds = self._context.view.rounds
        base, disputed = rounds.base, rounds.disputed_by(turn.client)
        if disputed is not None:
            return Step.wait(
                "dispute", f"other members: this client disputes round {disputed.number}, which is still in force"
            )
        fault = self._fault(turn, base) if base is not None else ""
        if base is None or not fault:
            return None
        if turn.client not in base.commits:
            return Step.wait("dispute", f"members of round {base.number}: this client refuses its model, {fault}")
        digest = self._context.store.put(evidence(base, fault)).digest
        send = partial(self._context.ledger.dispute, base.number, digest)
        return self._context.outbox.send(base, "dispute", f"disputed round {base.number}: {fault}", send, Kind.DISPUTED)

    def _fault(self, turn: ClientTurn, base: RoundRecords) -> str:
        try:
            return self._context.closings.fault(base, turn.client)
        except NotFound as fault:
            # It may still be on its way. A model that nobody can check before the next draw is over is refused.
            last = turn.deadlines
            if turn.block < (last.draw_end if turn.current.number > base.number else last.close_end):
                raise
            return str(fault)


def lot(keys: Keys, end: Closed) -> float:
    """A client's lot for a closing, uniform in [0, 1): its VRF, whose output nobody else can know."""
    alpha = b"fedgrove check 1" + end.round.to_bytes(8, "big") + end.model_digest + end.metrics_digest
    beta = vrf.proof_to_hash(vrf.prove(keys.vrf, sha256(alpha).digest()))
    return int.from_bytes(beta[:8], "big") / 2**64
