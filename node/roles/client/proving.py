"""Prove: where updates have bounds, a client vouches for its own, and says of others' what it holds of them."""

from dataclasses import dataclass
from functools import partial

from fedgrove.chain.records import Phase
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.protocol.expelling import latest_stage
from fedgrove.node.protocol.step import Kind, Step, missing, name_clients
from fedgrove.node.roles.client.context import ClientTurn, ClientUnit

_LAST_PART = 4
"""Of the window for affirmations, the part in which nobody waits for a blob any more."""


@dataclass
class Vouch(ClientUnit):
    """Proves that the update that this client committed to has bounds, under a sketch that nobody knew before.

    The voucher goes on the ledger first. It leaves the machine only when the ledger lists it.
    """

    _unable: int = 0
    _published: int = 0

    def act(self, turn: ClientTurn) -> Step | None:
        """Vouch, or publish the voucher; None where neither is due."""
        current, sketch_block = turn.current, turn.deadlines.sketch_block
        if turn.client in current.vouches:
            return self._publish(turn)
        if turn.phase is not Phase.VOUCH or self._unable == current.number:
            return None
        if turn.block < sketch_block:
            return Step.wait("vouch", "the chain: the block from which the sketch follows", sketch_block)
        block_hash = self.context.ledger.block_hash(sketch_block)
        try:
            blob = self.context.disclosure.voucher(current, turn.client, block_hash)
        except MaskingRefused as refusal:
            self._unable = current.number
            return Step.act("vouch", f"does not vouch, so its update is not summed: {refusal}")
        send = partial(self.context.ledger.vouch, current.number, block_hash, cid_of(blob).digest)
        step = self.context.outbox.send(current, "vouch", "vouched for its update", send)
        self.context.view.refresh()
        if turn.client in current.vouches:
            self._publish(turn)  # at once: others look for what is listed
        return step

    def _publish(self, turn: ClientTurn) -> Step | None:
        number, store = turn.current.number, self.context.store
        if self._published == number:
            return None
        self._published = number
        blob = self.context.disclosure.listed_voucher(turn.current, turn.client)
        if blob is None or store.has(cid_of(blob).digest):
            return None
        store.put(blob)
        return Step.act("vouch", "published its voucher")


class Affirm(ClientUnit):
    """Says which uploads and vouchers can be had, of the members whose witness this client is.

    Where a partner's voucher contradicts its own, it shows the point that both share, so that everybody sees who lied.
    """

    def act(self, turn: ClientTurn) -> Step | None:
        """Wait for vouchers, reveal, affirm; None where the time for that is over."""
        current, deadlines = turn.current, turn.deadlines
        if turn.phase is Phase.VOUCH:
            return Step.wait("vouch", missing(current.commits, current.vouches, "vouch"), deadlines.vouch_end)
        if turn.phase is not Phase.AFFIRM:
            return None
        if turn.client in current.affirmations or not current.vouches:
            awaited = missing(current.commits, current.affirmations, "affirm")
            return Step.wait("affirm", awaited, deadlines.affirm_end)
        self.context.disclosure.bind_sketch(current, current.sketch_hash)
        bounded, position = self.context.inputs(current).bounded, current.order.index(turn.client)
        lacking = bounded.missing(position)
        patience = deadlines.affirm_end - self.context.view.settings.affirm_window // _LAST_PART
        if lacking and turn.block < patience:
            reason = f"{name_clients(lacking)} to publish their updates and vouchers"
            return Step.wait("affirm", reason, patience, Kind.FETCHES)
        revealed = self._reveal(turn, bounded.contradicting(position))
        if revealed is not None:
            return revealed
        word = bounded.affirmation(position, lacking)
        send = partial(self.context.ledger.affirm, current.number, current.sketch_hash, word)
        said = f", but not of {name_clients(lacking)}" if lacking else ""
        return self.context.outbox.send(current, "affirm", f"affirmed what others published{said}", send)

    def _reveal(self, turn: ClientTurn, partners: tuple[int, ...]) -> Step | None:
        """Show the points shared with partners that contradict this client; None where none does."""
        if not partners:
            return None
        current, disclosure = turn.current, self.context.disclosure
        blob = disclosure.reveal(current, turn.client, partners)
        digest = self.context.store.put(blob).digest  # before it is listed: nobody comes to a verdict without it
        listed = len(current.reveals.get(turn.client, ()))
        send = partial(self.context.ledger.reveal, current.number, current.sketch_hash, digest)
        clients = name_clients([current.order[partner] for partner in partners])
        acted = f"revealed the points that it shares with {clients}, which contradict it"
        return self.context.outbox.send(current, "reveal", acted, send, on=listed)


class Expel(ClientUnit):
    """Releases further shares where the sum is not what its members vouched for: of the secrets of those who lied."""

    def act(self, turn: ClientTurn) -> Step | None:
        """Release shares in the next stage, or publish them; None where nothing of that is due."""
        current = turn.current
        if not self.context.view.settings.is_bounded or current.end is not None:
            return None
        own = [stage for stage in range(1, current.stage + 1) if turn.client in current.releases_in(stage)]
        for stage in own:
            if (step := self._publish(turn, stage)) is not None:
                return step
        due = self._due(turn)
        if turn.block < due:
            return Step.wait("close", "the coordinator: it closes the round", due)
        inputs = self.context.inputs(current)
        stage = latest_stage(inputs, partial(self.context.method.codec.outcome, inputs))
        if stage is None or stage.number in (0, *own):
            return None
        blob = self.context.disclosure.released_in(current, turn.client, stage)
        send = partial(
            self.context.ledger.release, current.number, cid_of(blob).digest, current.sketch_hash, stage.number
        )
        liars = name_clients([current.order[position] for position in stage.expelled])
        acted = f"released shares of {liars}, which lied about their updates"
        step = self.context.outbox.send(current, "expel", acted, send, on=stage.number)
        self.context.view.refresh()
        if turn.client in current.releases_in(stage.number):
            self._publish(turn, stage.number)
        return step

    def _due(self, turn: ClientTurn) -> int:
        """The block from which on a client looks at the sum itself: the coordinator would have closed the round."""
        current, settings = turn.current, self.context.view.settings
        blocks = sorted(each.at.block for each in current.releases_in(current.stage).values())
        enough = blocks[settings.releases - 1] if len(blocks) >= settings.releases else turn.block
        return enough + max(1, settings.recover_window // _LAST_PART)

    def _publish(self, turn: ClientTurn, stage: int) -> Step | None:
        store = self.context.store
        blob = self.context.disclosure.listed_release(turn.current, turn.client, stage)
        if blob is None or store.has(cid_of(blob).digest):
            return None
        store.put(blob)
        return Step.act("expel", "published the shares that it released")
