"""Contribute: a client shares its secrets, trains, commits to its masked update, and publishes that."""

from dataclasses import dataclass, replace
from functools import partial

from fedgrove.chain.records import Phase
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.protocol.clock import slot_ends
from fedgrove.node.protocol.local_work import BeginsAnew, CannotTakePart, StateLost
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
    """Trains as soon as the client has shared, and commits once the list of shares is final.

    Where the terms have slots, it commits only when one of them ends. Who is not ready when the last one ends has
    failed to train, so that nothing but the slot says how long the training took.
    """

    _unable: tuple[int, Step] | None = None
    _trained: int = 0  # the last round with an update, which may be large: it is read again when it is needed
    _due: tuple[int, int] = (0, 0)  # a round, and the block in which the slot ends in which the update was ready

    def act(self, turn: ClientTurn) -> Step:
        """Train, wait for the others' shares, or commit."""
        # (1) what it could not do once it does not try again in this round
        if self._unable is not None and self._unable[0] == turn.current.number:
            return self._unable[1]
        number, early = turn.current.number, turn.phase is Phase.SHARE
        if self._trained == number and (waits := self._await(turn, early)):
            return waits
        # (2) train while others still share; the result waits in the journal
        try:
            ends = [] if early else self._slot_ends(turn)
            last = {"last": True} if ends and turn.block >= ends[-1] and self._trained != number else {}
            update = self.context.work.result(turn.current, turn.client, **last)
            if update is None:
                until = next((end for end in ends if end > turn.block), turn.deadlines.commit_end)
                return Step.wait("train", "this client: it is training", until, Kind.WORKS)
            self._trained, self._due = number, (number, ends[-1]) if last else self._due
            if waits := self._await(turn, early):
                return waits
            # (3) mask, with the final list of shares: another list would mean other masks over the same update
            masked = self.context.disclosure.masked(turn.current, turn.client, update)
            codec, inputs = self.context.method.codec, self.context.inputs(turn.current)
            remark, caution = codec.remark(inputs, update), codec.caution(inputs, update)
        except StateLost as loss:
            return Step.act("train", f"removed its strategy's state and trains without it: {loss}")
        except BeginsAnew as turned:
            said = f"turned to the first model, as most fail to train from the one in force: {turned.fault.brief}"
            return replace(Step.act("train", said), detail=str(turned))
        except (CannotTakePart, InvalidContent, MaskingRefused) as fault:
            brief = fault.brief if isinstance(fault, CannotTakePart) else str(fault)
            self._unable = (number, replace(turn.sit_out(f"this client: {brief}"), detail=str(fault)))
            return self._unable[1]
        # (4) commit to the digest; the bytes follow once it is confirmed
        return replace(self._commit(turn, masked, remark, caution), detail=codec.detail(update))

    def _await(self, turn: ClientTurn, early: bool) -> Step | None:
        """What a client waits for that is ready: the others' shares, or the end of a slot; None for nothing."""
        if early:
            awaited = missing(turn.current.draws, turn.current.shares, "share")
            return Step.wait("share", awaited, turn.deadlines.share_end)
        ends, number = self._slot_ends(turn), turn.current.number
        if not ends:
            return None
        if self._due[0] != number:
            self._due = (number, next((end for end in ends if end >= turn.block), 0))
        if not self._due[1]:
            return turn.sit_out("this client: it came when the last slot had ended (federation.commit_slots)")
        if turn.block >= self._due[1]:
            return None
        return Step.wait("commit", "the end of this client's slot (federation.commit_slots)", self._due[1])

    def _slot_ends(self, turn: ClientTurn) -> list[int]:
        return slot_ends(self.context.config.commit_slots, turn.deadlines.share_end, turn.deadlines.commit_end)

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
