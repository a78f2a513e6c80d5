"""Conclude: a client releases shares, so that the sum can be unmasked, and judges what the round came to."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256

from fedgrove.chain.crypto import vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.records import Closed, Judged, Phase, Replaced
from fedgrove.ipfs.store import NotFound
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.protocol.clock import draw_window_end
from fedgrove.node.protocol.closing import Rank
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Kind, Step, missing, name_clients
from fedgrove.node.roles.client.context import ClientTurn, ClientUnit
from fedgrove.node.roles.client.proving import Expel

NOTHING = bytes(32)
"""In a judgement, in place of both digests: nothing may be summed, or the round has no result."""
NEITHER = (NOTHING, NOTHING)
_NONE: Rank = (1 << 32, *NEITHER)  # behind every result


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
        if turn.phase in (Phase.VOUCH, Phase.AFFIRM):
            awaited = missing(turn.current.commits, turn.current.affirmations, "vouch and affirm")
            return Step.wait("affirm", awaited, deadlines.affirm_end)
        if turn.client in turn.current.releases:
            return self._publish(turn)
        if turn.phase is Phase.OVERDUE:
            return Step.wait("recover", "anyone: the round is overdue", turn.block + 1)
        base = self.context.view.rounds.base_of(turn.current.number)
        if base is not None and not self._relies_on(turn, base):
            reason = f"other members to confirm the closing of round {base.number}, from which this one trains"
            return Step.wait("recover", reason, turn.block + 1, Kind.FETCHES)
        gone = self.context.disclosure.unpublished(turn.current, turn.client)
        patience = deadlines.affirm_end + self.context.view.settings.recover_window // 2
        if gone and turn.block < patience:
            # An update is published after its commitment is confirmed: the last one may still be on its way.
            reason = f"{name_clients(gone)} to publish their committed updates"
            return Step.wait("recover", reason, patience, Kind.FETCHES)
        return self._release(turn, gone)

    def _relies_on(self, turn: ClientTurn, base: RoundRecords) -> bool:
        """Whether the model that a round trains from is right, as this client knows or enough others say.

        A liar could choose a model from which the update of one member is read out of the sum.
        """
        closings = self.context.closings
        if closings.is_confirmed(base):
            return True
        return not closings.fault(base, turn.client, block=turn.block) and closings.is_found_right(base)

    def _release(self, turn: ClientTurn, gone: list[int]) -> Step:
        """Release shares, given the clients whose update is unavailable."""
        try:
            blob = self.context.disclosure.released(turn.current, turn.client, gone)
        except MaskingRefused as refusal:
            return self._refuse(turn, str(refusal))
        send = partial(self.context.ledger.release, turn.current.number, cid_of(blob).digest, turn.current.sketch_hash)
        step = self.context.outbox.send(turn.current, "recover", "released shares", send)
        self.context.view.refresh()
        if turn.client in turn.current.releases:
            self._publish(turn)  # at once: others look for what is listed
        return step

    def _refuse(self, turn: ClientTurn, refusal: str) -> Step:
        """Release nothing, and say on the ledger that nothing may be summed, if this client committed."""
        said = f"this client releases no shares, {refusal}"
        current, needed = turn.current, self.context.view.settings.releases
        judged = turn.client in current.judgements(Phase.RECOVER) or turn.phase is not Phase.RECOVER
        if judged or turn.client not in current.commits or len(current.releases) >= needed:
            return Step.wait("recover", f"other members: {said}", turn.deadlines.recover_end)
        send = partial(self.context.ledger.judge, current.number, Phase.RECOVER, NOTHING, NOTHING)
        return self.context.outbox.send(current, "judge", f"judged that nothing may be summed: {said}", send)

    def _publish(self, turn: ClientTurn) -> Step:
        """Publish the shares of a release that the ledger lists, once."""
        if self._published != turn.current.number:
            blob = self.context.disclosure.listed_release(turn.current, turn.client)
            if blob is not None and not self.context.store.has(turn.current.releases[turn.client].digest):
                self.context.journal.count_release(turn.current.number)  # a chain may drop what it lists now
                self.context.store.put(blob)
                self._published = turn.current.number
                return Step.act("recover", "published the shares that it released")
            self._published = turn.current.number
        expelled = Expel(self.context).act(turn)
        return expelled or Step.wait("close", "the coordinator: it closes the round", turn.deadlines.recover_end)


@dataclass
class Judge(ClientUnit):
    """Refuses the model in force, and any model trained from it, if its round is wrong, and says what is right."""

    _had: set[bytes] = field(default_factory=set)

    def act(self, turn: ClientTurn) -> Step | None:
        """Judge a closed round that is wrong; None when all is well.

        Only clients that committed in it can judge it; the others wait for them.
        """
        base = self.context.view.rounds.base
        if base is None:
            return None
        refused = self.context.view.rounds.refused_by(turn.client)
        if refused is not None and refused is not base and not self._is_right_now(refused):
            reason = f"other members: this client judges that round {refused.number} has another result"
            return Step.wait("judge", reason)
        fault = self._fault(turn, base, certainly=refused is not None)
        if not fault:
            return None
        if turn.client not in base.commits:
            return Step.wait("judge", f"members of round {base.number}: this client refuses its model, {fault}")
        # Whoever closed first and let nobody recompute would be right for ever: shares are released behind it, too, and
        # nobody says that there is no result while others' shares may make one.
        deadlines = self.context.view.deadlines(base)
        if turn.block < deadlines.recover_end and turn.client not in base.releases:
            return ReleaseShares(self.context).act(replace(turn, current=base, deadlines=deadlines))
        said = base.judgements(Phase.CLOSED).get(turn.client)
        left_out, *digests = self._right(base, said)
        if said is not None and digests in (list(NEITHER), [said.model_digest, said.metrics_digest]):
            reason = f"other members: this client judges that round {base.number} has another result, as {fault}"
            return Step.wait("judge", reason)
        if left_out and turn.block < deadlines.recover_end:
            reason = f"members of round {base.number} to release shares: this client refuses its model, {fault}"
            return Step.wait("judge", reason, deadlines.recover_end)
        send = partial(self.context.ledger.judge, base.number, Phase.CLOSED, *digests)
        acted = f"judged round {base.number} wrong: {fault}"
        # What one says in another's place is taken only while somebody says it.
        return self.context.outbox.send(base, "judge", acted, send, Kind.JUDGED, (*digests, *_alike(base, digests)))

    def _right(self, base: RoundRecords, said: Judged | None) -> Rank:
        """What a wrong round should have come to; where this client ``said`` something before, by what others say.

        Who withholds a release chooses who comes to which result: each puts its own into the store with the proof, and
        all say the best of them.
        """
        right = self.context.closings.right_result(base) if said is None else None
        judged = () if right is not None and right.named else base.judgements(Phase.CLOSED).values()
        best = min((rank for rank in (self._rank(base, each) for each in judged) if rank is not None), default=_NONE)
        if right is None or best <= right.rank:
            return best
        for blob in (right.record, right.model, right.metrics):
            self.context.store.put(blob)
        return right.rank

    def _rank(self, base: RoundRecords, judged: Judged) -> Rank | None:
        """That of a member's result; the closing's is wrong, and zeros are none."""
        pair = judged.model_digest, judged.metrics_digest
        stands = base.result.model_digest, base.result.metrics_digest
        return self.context.closings.rank(base, judged) if pair not in (stands, NEITHER) else None

    def _is_right_now(self, refused: RoundRecords) -> bool:
        """Whether a round that this client judged otherwise has a right result by now, which others put there."""
        return refused.replaced is not None and not self.context.closings.fault(refused, certainly=True)

    def tell(self, turn: ClientTurn) -> Step | None:
        """Say that the last closing is right where this client recomputed it, and not all do; None: nothing to say."""
        base, closings = self.context.view.rounds.base, self.context.closings
        if base is None or closings.all_check(base) or closings.is_confirmed(base):
            return None
        return self.confirm(turn) if closings.is_found_right(base) else None

    def confirm(self, turn: ClientTurn) -> Step | None:
        """Say that the last closing is right, so that readers know it from its members; None where that is done."""
        base = self.context.view.rounds.base
        if base is None or turn.client not in base.commits or turn.client in base.judgements(Phase.CLOSED):
            return None
        if self._fault(turn, base, certainly=True):
            return None  # ``act`` says so
        digests = base.result.model_digest, base.result.metrics_digest
        send = partial(self.context.ledger.judge, base.number, Phase.CLOSED, *digests)
        return self.context.outbox.send(base, "judge", f"confirmed the closing of round {base.number}", send)

    def _fault(self, turn: ClientTurn, base: RoundRecords, certainly: bool = False) -> str:
        closings, store, digest = self.context.closings, self.context.store, base.result.model_digest
        try:
            # Who closes rightly and keeps the model to itself stops nobody: who cannot have it recomputes it.
            lacks = digest not in self._had and not store.available(digest, self.context.config.max_blob_bytes)
            fault = closings.fault(base, turn.client, certainly or lacks, turn.block)
            if lacks and not fault:
                store.put(closings.right_model(base))
            self._had = {digest}
            return fault
        except NotFound as fault:
            # It may still be on its way. A model that nobody can check in the next window for draws is refused: the
            # draws themselves wait for a quorum, and so for those who wait here.
            next_window = draw_window_end(turn.current, self.context.view.settings)
            if turn.block < (next_window if turn.current.number > base.number else turn.deadlines.recover_end):
                raise
            return str(fault)


def _alike(base: RoundRecords, digests: Sequence[bytes]) -> list[int]:
    """Who says that a closed round came to this."""
    said = base.judgements(Phase.CLOSED)
    return [client for client, each in said.items() if [each.model_digest, each.metrics_digest] == [*digests]]


def lot(keys: Keys, end: Closed | Replaced) -> float:
    """A client's lot for a closing, uniform in [0, 1): its VRF, whose output nobody else can know."""
    alpha = b"fedgrove check 1" + end.round.to_bytes(8, "big") + end.model_digest + end.metrics_digest
    beta = vrf.proof_to_hash(vrf.prove(keys.vrf, sha256(alpha).digest()))
    return int.from_bytes(beta[:8], "big") / 2**64
