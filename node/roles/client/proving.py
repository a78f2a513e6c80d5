"""Prove: where updates have bounds, a client vouches for its own, and says of others' what it holds of them."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from fedgrove.chain.records import Phase
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.protocol.expelling import latest_stage
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Kind, Step, missing, name_clients
from fedgrove.node.roles.client.context import ClientTurn, ClientUnit

_PATIENCE = 4
"""Of a window of releases, the part after which a client looks at the sum itself."""


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
    """Says what can be had, of the members whose shares this client holds.

    Before that it objects to updates that it misses as their witness and, where a partner's voucher contradicts its
    own, shows the point that both share, so that everybody sees who lied.
    """

    def act(self, turn: ClientTurn) -> Step | None:
        """Wait for vouchers, depose, vote; None where the time for that is over."""
        current, deadlines = turn.current, turn.deadlines
        if turn.phase is Phase.VOUCH:
            return Step.wait("vouch", missing(current.commits, current.vouches, "vouch"), deadlines.vouch_end)
        if turn.phase is not Phase.AFFIRM:
            return None
        if turn.client in current.affirmations or not current.vouches:
            awaited = missing(current.commits, current.affirmations, "affirm")
            return Step.wait("affirm", awaited, deadlines.affirm_end)
        # (1) the sketch stands, as this client goes on only under one
        self.context.disclosure.bind_sketch(current, current.sketch_hash)
        disclosure, bounded = self.context.disclosure, self.context.inputs(current).bounded
        position, times, unseen = current.order.index(turn.client), bounded.times, bounded.unseen()
        late = disclosure.late_vouchers(current) if turn.block >= times.seen else ()
        # (2) object, and reveal, early: whoever votes goes by it
        if turn.client not in current.reveals and turn.block <= times.deposed:
            gone = bounded.unpublished(position, disclosure.lot(current.number))
            if (lacking := {*unseen, *gone}) and turn.block < times.objects:
                return self._fetches(current, lacking, times.seen if turn.block < times.seen else times.objects)
            deposed = self._depose(turn, gone)
            if deposed is not None:
                return deposed
        # (3) vote when others had the time to object
        if turn.block < times.deposed and not bounded.is_settled(position):
            reason = "members that miss an update, or are contradicted, to say so"
            return Step.wait("affirm", reason, times.deposed)
        if (lacking := {*unseen}.difference(late)) and turn.block < times.late:
            return self._fetches(current, lacking, times.late)
        send = partial(self.context.ledger.affirm, current.number, current.sketch_hash, bounded.vote(position, late))
        return self.context.outbox.send(current, "affirm", "affirmed what others published", send)

    def _fetches(self, current: RoundRecords, lacking: Collection[int], until: int) -> Step:
        clients = name_clients(sorted(current.order[position] for position in lacking))
        return Step.wait("affirm", f"{clients} to publish what they listed", until, Kind.FETCHES)

    def _depose(self, turn: ClientTurn, gone: Collection[int]) -> Step | None:
        """Say who contradicts this client, and whose update it misses; None where there is nothing to say."""
        current = turn.current
        blob = self.context.disclosure.deposition(current, turn.client, gone)
        if blob is None:
            return None
        digest = self.context.store.put(blob).digest  # before it is listed, so that all who vote can have it
        send = partial(self.context.ledger.reveal, current.number, current.sketch_hash, digest)
        acted = "objected to what others published, or showed what contradicts them"
        return self.context.outbox.send(current, "depose", acted, send)


class Expel(ClientUnit):
    """Releases further shares where the sum is not what its members vouched for: of the secrets of those who lied."""

    def act(self, turn: ClientTurn) -> Step | None:
        """Release shares in the next stage, or publish them; None where nothing of that is due."""
        current = turn.current
        if not self.context.view.settings.is_bounded or current.end is not None:
            return None
        own = [stage for stage in range(current.stage + 1) if turn.client in current.releases_in(stage)]
        for stage in own[1:]:
            if (step := self._publish(turn, stage)) is not None:
                return step
        due, late = self._due(current, own[-1]), turn.deadlines.recover_end + self.context.view.settings.recover_window
        due = late if due is None else due
        if turn.block < due:
            return Step.wait("close", "the coordinator: it closes the round", due)
        inputs = self.context.inputs(current)
        stage = latest_stage(inputs, partial(self.context.method.codec.outcome, inputs))
        if stage is None:
            return None
        if stage.number in own:
            return self._give_up(turn, late)
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

    def _give_up(self, turn: ClientTurn, late: int) -> Step | None:
        """Say that nothing can be summed, when the shares that are missing have been waited for; None before that."""
        current = turn.current
        if turn.block < late:
            awaited = missing(current.releases, current.releases_in(current.stage), "release shares")
            return Step.wait("expel", awaited, late)
        if turn.client not in current.commits or turn.client in current.judgements(Phase.RECOVER):
            return None
        send = partial(self.context.ledger.judge, current.number, Phase.RECOVER, bytes(32), bytes(32))
        acted = "judged that nothing may be summed: too few shares were released, or too many members lied"
        return self.context.outbox.send(current, "judge", acted, send)

    def _due(self, current: RoundRecords, last: int) -> int | None:
        """The block from which on a client looks at the sum itself, given the last stage in which it released.

        Somebody went on to the next stage, or the coordinator would have closed the round by then; None: not yet.
        """
        settings = self.context.view.settings
        if last < current.stage:
            return 0
        blocks = sorted(each.at.block for each in current.releases_in(last).values())
        if len(blocks) < settings.releases:
            return None
        return blocks[settings.releases - 1] + max(1, settings.recover_window // _PATIENCE)

    def _publish(self, turn: ClientTurn, stage: int) -> Step | None:
        store = self.context.store
        blob = self.context.disclosure.listed_release(turn.current, turn.client, stage)
        if blob is None or store.has(cid_of(blob).digest):
            return None
        store.put(blob)
        return Step.act("expel", "published the shares that it released")
