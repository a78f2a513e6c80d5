"""Commit: a client trains, masks its update, and lists its digest; the update itself is published afterwards."""

from dataclasses import replace
from functools import partial

from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import InvalidModel
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.masking.ring import InvalidVector
from fedgrove.node.protocol.content import InvalidBlob, Update
from fedgrove.node.protocol.local_work import BeginsAnew, CannotTakePart, Diverged, StateLost
from fedgrove.node.protocol.step import Step, missing
from fedgrove.node.roles.client.context import ClientContext, ClientTurn


class Commit:
    """Trains as soon as the client has shared, and commits once the list of shares is final (spec 02, step 4)."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._unable: tuple[int, str] | None = None
        self._trained = 0  # the last round with an update, which may be large: it is read again when it is needed

    def act(self, turn: ClientTurn) -> Step:
        """Train, wait for the others' shares, or commit."""
        if self._unable is not None and self._unable[0] == turn.current.number:
            return turn.sit_out(f"this client: {self._unable[1]}")
        number, early = turn.current.number, turn.block < turn.deadlines.share_end
        if early and self._trained == number:
            return self._await_shares(turn)
        try:
            update = self._update(turn)
            if update is None:
                return Step.wait("train", "this client: it is training", turn.deadlines.commit_end, busy=True)
            self._trained = number
            if early:
                return self._await_shares(turn)
            masked = self._context.disclosure.masked(turn.current, turn.client, update)
            codec, inputs = self._context.method.codec, self._context.inputs(turn.current)
            remark, caution = codec.remark(inputs, update), codec.caution(inputs, update)
        except StateLost as loss:
            return Step("train", acted=f"removed its strategy's state and trains without it: {loss}")
        except BeginsAnew as fault:
            return Step(
                "train", acted=f"turned to the first model, as most fail to train from the one in force: {fault}"
            )
        except (CannotTakePart, InvalidBlob, InvalidModel, InvalidVector, MaskingRefused) as fault:
            self._unable = (turn.current.number, str(fault))
            return turn.sit_out(f"this client: {fault}")
        return self._commit(turn, masked, remark, caution)

    def _await_shares(self, turn: ClientTurn) -> Step:
        awaited = missing(turn.current.draws, turn.current.shares, "share")
        return Step.wait("share", awaited, turn.deadlines.share_end)

    def _update(self, turn: ClientTurn) -> Update | None:
        """The trained model, or its replacement if the training diverged; None while training runs."""
        try:
            return self._context.work.result(turn.current, turn.client)
        except Diverged:
            update = self._context.method.codec.in_place_of_diverged(self._context.inputs(turn.current))
            if update is None:
                raise
            return update

    def _commit(self, turn: ClientTurn, masked: bytes, remark: str, caution: str) -> Step:
        """List the digest of the masked update, and remember when that is confirmed."""
        number = turn.current.number
        seed_hash = self._context.disclosure.secrets(number).seed_hash
        said = "; ".join(filter(None, (f"committed {remark}".strip(), caution)))
        send = partial(self._context.ledger.commit, number, cid_of(masked).digest, seed_hash)
        step = self._context.outbox.send(turn.current, "commit", said, send)
        if step.acted:
            self._context.disclosure.confirm_commit(number)
        return replace(step, warns=bool(step.acted and caution))
