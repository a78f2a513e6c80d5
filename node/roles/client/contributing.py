"""Contribute: a client shares its secrets, trains, commits to its masked update, and publishes that."""

from dataclasses import dataclass, replace
from functools import partial

from fedgrove.chain.records import Phase
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.protocol.content import Update
from fedgrove.node.protocol.local_work import BeginsAnew, CannotTakePart, Diverged, StateLost
from fedgrove.node.protocol.step import Kind, Step, missing
from fedgrove.node.roles.client.context import ClientTurn, ClientUnit


class PublishShares(ClientUnit):
    """Publishes the sealed shares, and lists them on the ledger."""

    def act(self, turn: ClientTurn) -> Step:
        """Share."""
        blob = self.context.disclosure.shares(turn.current, turn.client)
        digest = self.context.store.put(blob).digest
        send = partial(self.context.ledger.share, turn.current.number, digest)
        return self.context.outbox.send(turn.current, "share", "shared", send)


@dataclass
class Commit(ClientUnit):
    """Trains as soon as the client has shared, and commits once the list of shares is final."""

    _unable: tuple[int, str] | None = None
    _trained: int = 0  # the last round with an update, which may be large: it is read again when it is needed

    def act(self, turn: ClientTurn) -> Step:
        """Train, wait for the others' shares, or commit."""
        # (1) what it could not do once it does not try again in this round
        if self._unable is not None and self._unable[0] == turn.current.number:
            return turn.sit_out(f"this client: {self._unable[1]}")
        number, early = turn.current.number, turn.phase is Phase.SHARE
        if early and self._trained == number:
            return self._await_shares(turn)
        # (2) train while others still share; the result waits in the journal
        try:
            update = self._update(turn)
            if update is None:
                return Step.wait("train", "this client: it is training", turn.deadlines.commit_end, Kind.WORKS)
            self._trained = number
            if early:
                return self._await_shares(turn)
            # (3) mask, with the final list of shares: another list would mean other masks over the same update
            masked = self.context.disclosure.masked(turn.current, turn.client, update)
            codec, inputs = self.context.method.codec, self.context.inputs(turn.current)
            remark, caution = codec.remark(inputs, update), codec.caution(inputs, update)
        except StateLost as loss:
            return Step.act("train", f"removed its strategy's state and trains without it: {loss}")
        except BeginsAnew as fault:
            return Step.act("train", f"turned to the first model, as most fail to train from the one in force: {fault}")
        except (CannotTakePart, InvalidContent, MaskingRefused) as fault:
            self._unable = (turn.current.number, str(fault))
            return turn.sit_out(f"this client: {fault}")
        # (4) commit to the digest; the bytes follow once it is confirmed
        return self._commit(turn, masked, remark, caution)

    def _await_shares(self, turn: ClientTurn) -> Step:
        awaited = missing(turn.current.draws, turn.current.shares, "share")
        return Step.wait("share", awaited, turn.deadlines.share_end)

    def _update(self, turn: ClientTurn) -> Update | None:
        """The trained model, or its replacement if the training diverged; None while training runs."""
        try:
            return self.context.work.result(turn.current, turn.client)
        except Diverged:
            update = self.context.method.codec.in_place_of_diverged(self.context.inputs(turn.current))
            if update is None:
                raise
            return update

    def _commit(self, turn: ClientTurn, masked: bytes, remark: str, caution: str) -> Step:
        """List the digest of the masked update, and remember when that is confirmed."""
        number = turn.current.number
        seed_hash = self.context.disclosure.secrets(number).seed_hash
        said = "; ".join(filter(None, (f"committed {remark}".strip(), caution)))
        send = partial(self.context.ledger.commit, number, cid_of(masked).digest, seed_hash)
        step = self.context.outbox.send(turn.current, "commit", said, send, Kind.COMMITTED)
        if step.acted:
            self.context.disclosure.confirm_commit(number)
        return replace(step, warns=bool(step.acted and caution))


@dataclass
class Publish(ClientUnit):
    """Puts the masked update into the store."""

    _published: int = 0

    def act(self, turn: ClientTurn) -> Step | None:
        """Publish the update that the ledger lists; None when it is published."""
        store, number = self.context.store, turn.current.number
        listed = turn.current.commits[turn.client].digest
        if self._published != number and store.has(listed):
            store.pin(listed)  # a process that was killed while it published may not have come to that
            self._published = number
        if self._published == number:
            return None
        masked = self.context.disclosure.published(turn.current, turn.client)
        if masked is None:
            return turn.sit_out("this client: its masked update is missing from the journal")
        store.put(masked)
        self._published = number
        return Step.act("commit", "published its masked update")
