"""Conclude: a client releases shares, so that the sum can be unmasked, and refuses a closing that is wrong."""

from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from fedgrove.chain.crypto import vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.records import Closed, Phase
from fedgrove.ipfs.store import NotFound
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.protocol.closing import evidence
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Kind, Step, missing, name_clients
from fedgrove.node.roles.client.context import ClientTurn, ClientUnit


@dataclass
class ReleaseShares(ClientUnit):
    """Releases shares when the list of commitments is final.

    The release goes on the ledger first. The shares leave the machine only when the ledger lists it: what it does not
    list is not spent.
    """

    _published: int = 0

    def act(self, turn: ClientTurn) -> Step:
        """Wait for commitments or updates, release shares, or publish those that are released."""
        deadlines = turn.deadlines
        if turn.phase in (Phase.SHARE, Phase.COMMIT):
            awaited = missing(turn.current.shares, turn.current.commits, "commit")
            return Step.wait("commit", awaited, deadlines.commit_end)
        if turn.client in turn.current.releases:
            return self._publish(turn)
        if turn.phase is Phase.OVERDUE:
            return Step.wait("recover", "the coordinator: the round is overdue", deadlines.close_end)
        gone = self.context.disclosure.unpublished(turn.current, turn.client)
        patience = deadlines.commit_end + self.context.view.settings.recover_window // 2
        if gone and turn.block < patience:
            # An update is published after its commitment is confirmed: the last one may still be on its way.
            reason = f"{name_clients(gone)} to publish their committed updates"
            return Step.wait("recover", reason, patience, Kind.FETCHES)
        return self._release(turn, gone)

    def _release(self, turn: ClientTurn, gone: list[int]) -> Step:
        """Release shares, given the clients whose update is unavailable."""
        try:
            blob = self.context.disclosure.released(turn.current, turn.client, gone)
        except MaskingRefused as refusal:
            reason = f"the coordinator: this client refuses to release shares, {refusal}"
            return Step.wait("recover", reason, turn.deadlines.recover_end)
        send = partial(self.context.ledger.release, turn.current.number, cid_of(blob).digest)
        step = self.context.outbox.send(turn.current, "recover", "released shares", send)
        self.context.view.refresh()
        if turn.client in turn.current.releases:
            self._publish(turn)  # at once: others look for what is listed
        return step

    def _publish(self, turn: ClientTurn) -> Step:
        """Publish the shares of a release that the ledger lists, once."""
        if self._published != turn.current.number:
            blob = self.context.disclosure.listed_release(turn.current, turn.client)
            if blob is not None and not self.context.store.has(turn.current.releases[turn.client].digest):
                self.context.store.put(blob)
                self._published = turn.current.number
                return Step.act("recover", "published the shares that it released")
            self._published = turn.current.number
        return Step.wait("close", "the coordinator: it recovers and closes the round", turn.deadlines.close_end)


class Dispute(ClientUnit):
    """Refuses the model in force, and any model trained from it, if its round is wrong."""

    def act(self, turn: ClientTurn) -> Step | None:
        """Dispute a closed round that is wrong; None when all is well.

        Only clients that committed in it can dispute it; the others wait for them.
        """
        rounds = self.context.view.rounds
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
        digest = self.context.store.put(evidence(base, fault)).digest
        send = partial(self.context.ledger.dispute, base.number, digest)
        return self.context.outbox.send(base, "dispute", f"disputed round {base.number}: {fault}", send, Kind.DISPUTED)

    def _fault(self, turn: ClientTurn, base: RoundRecords) -> str:
        try:
            return self.context.closings.fault(base, turn.client)
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
