"""A client's disclosures in a round: sealed shares, one masked update, released shares.

Each is made once, is in the journal before anybody sees it, and never changes. It is bound to the order (and, from the
update on, to the list of shares) that it was made for: masks that were used once must never hide another sum. So when
the chain abandons the blocks that fixed these, the client sits out the round instead of doing anything twice.
"""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from hashlib import sha256

from fedgrove.chain.records import Committed, Released, Vouched
from fedgrove.common.errors import Refused
from fedgrove.ipfs.store import ContentStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.client import RoundSecrets, seal_shares
from fedgrove.node.masking.graph import decode_positions, encode_positions
from fedgrove.node.masking.release import held_shares, release
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.masking.survivors import all_summed
from fedgrove.node.protocol.aggregation import sealed_shares
from fedgrove.node.protocol.content import Update, unavailable
from fedgrove.node.protocol.expelling import Stage
from fedgrove.node.protocol.journal import Journal, JournalDamaged, RoundNote
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.opened import OPENED, Opened, most_further
from fedgrove.node.protocol.policy import overspent
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords


class OrderAbandoned(Refused):
    """The chain now states another order or other shares than those that this client's secrets were used for."""


@dataclass
class Disclosure:
    """Makes what one client discloses, out of its journal.

    Parameters
    ----------
    journal : Journal
        Where all of it is kept until the round is over.
    store : ContentStore
        For the shares of others, and the global model.
    method : Method
        That of the terms.
    inputs : callable
        The public inputs of a sealed round.
    """

    journal: Journal
    store: ContentStore
    method: Method
    inputs: Callable[[RoundRecords], RoundInputs]

    def secrets(self, number: int) -> RoundSecrets:
        """The round's secrets: those in the journal, or fresh ones that are in the journal when this returns."""
        note = self.journal.note(number)
        if note is None:
            note = RoundNote(number, secrets=RoundSecrets.generate(os.urandom).to_bytes().hex())
            self.journal.save(note)
        return RoundSecrets.from_bytes(bytes.fromhex(note.secrets))

    def shares(self, current: RoundRecords, client: int) -> bytes:
        """This client's sealed shares for the others."""
        self._bind(current, "order", _order_digest(current))
        blob = self._kept(current.number, "shares")
        if blob is None:
            graph = self.inputs(current).graph
            blob = seal_shares(graph, current.order.index(client), self.secrets(current.number), os.urandom)
            self._keep(current.number, "shares", blob)
        return blob

    def masked(self, current: RoundRecords, client: int, update: Update) -> bytes:
        """The masked update; call it when the list of shares is final."""
        self._bind(current, "order", _order_digest(current))
        self._bind(current, "summed", _sum_digest(current))
        data = self._kept(current.number, "masked")
        if data is None:
            data = self.mask(current, client, update)
            if self.method.accounting.budget is not None:
                self.journal.count_upload(current.number)  # before anybody can see it: a crash refunds nothing
            self._keep(current.number, "masked", data)
        return data

    def published(self, current: RoundRecords, client: int) -> bytes | None:
        """The masked update if it is the one that the ledger lists, else None."""
        return self._listed(current, "masked", current.commits.get(client))

    def voucher(self, current: RoundRecords, client: int, block_hash: bytes) -> bytes:
        """The proof that its update has bounds, under the sketch that follows from a block; one a round.

        Raises
        ------
        node.masking.MaskingRefused
            It has not.
        """
        self.bind_sketch(current, block_hash)
        blob = self._kept(current.number, "voucher")
        if blob is None:
            masked = self.published(current, client)
            if masked is None:
                raise JournalDamaged(f"its masked update of round {current.number} is missing from its journal")
            inputs, secrets = self.inputs(current), self.secrets(current.number)
            blob = inputs.bounded.vouch(current.order.index(client), secrets, masked, block_hash)
            self._keep(current.number, "voucher", blob)
        return blob

    def listed_voucher(self, current: RoundRecords, client: int) -> bytes | None:
        """The voucher if it is the one that the ledger lists, else None."""
        return self._listed(current, "voucher", current.vouches.get(client))

    def bind_sketch(self, current: RoundRecords, block_hash: bytes) -> None:
        """Note which block the sketch of the round's updates follows from; OrderAbandoned: another one by now."""
        self._bind(current, "order", _order_digest(current))
        self._bind(current, "sketch", block_hash.hex())

    def lot(self, number: int) -> int:
        """A number that nobody else knows, the same in the whole round."""
        return int.from_bytes(sha256(b"fedgrove lot 1" + self.secrets(number).seal_secret).digest())

    def late_vouchers(self, current: RoundRecords) -> tuple[int, ...]:
        """Positions whose vouchers could not be had when this was first asked; the same ever after in the round.

        Raises Unreachable.
        """
        blob = self._kept(current.number, "late")
        if blob is None:
            blob = encode_positions(self.inputs(current).bounded.unvouched())
            self._keep(current.number, "late", blob)
        return decode_positions(blob, len(blob) // 4, "the journal")[0]

    def deposition(self, current: RoundRecords, client: int, missing: Collection[int]) -> bytes | None:
        """What it says of partners that contradict it, and of updates that it misses; None for nothing. One a round."""
        blob = self._kept(current.number, "deposition")
        if blob is None:
            bounded, position = self.inputs(current).bounded, current.order.index(client)
            blob = bounded.deposition(position, self.secrets(current.number), missing)
            if blob is not None:
                self._keep(current.number, "deposition", blob)
        return blob

    def listed_release(self, current: RoundRecords, client: int, stage: int = 0) -> bytes | None:
        """The shares that it released in a stage if they are those that the ledger lists, else None."""
        return self._listed(current, _released(stage), current.releases_in(stage).get(client))

    def unpublished(self, current: RoundRecords, client: int) -> list[int]:
        """Clients whose update this one witnesses and cannot have; none once the shares to release are chosen.

        Each update that is to be summed has a few witnesses: nobody waits, or looks, for those of all others.
        """
        if not current.commits or self.journal.read(current.number, "released") is not None:
            return []
        inputs = self.inputs(current)
        if inputs.bounds is not None:
            return []  # its witnesses said so before
        graph, position = inputs.graph, current.order.index(client)
        summed = all_summed(graph, current.positions(current.commits))
        witnessed = [
            owner for owner in graph.held_by[position] if owner in summed and position in graph.witnesses(owner)
        ]
        codec = self.method.codec
        sizes = {current.order[owner]: codec.expected_bytes(inputs, current.order[owner]) for owner in witnessed}
        return unavailable(self.store, {owner: current.commits[owner].digest for owner in sizes}, sizes)

    def released(self, current: RoundRecords, client: int, gone: list[int]) -> bytes:
        """The shares that this client releases, given the clients whose update is unavailable.

        Raises
        ------
        node.masking.MaskingRefused
            Releasing them would expose somebody.
        """
        return self._released(current, client, gone, Stage())

    def released_in(self, current: RoundRecords, client: int, stage: Stage) -> bytes:
        """The shares that it releases in a stage, where updates have bounds; raises as ``released``, StoreError."""
        return self._released(current, client, [], stage)

    def _released(self, current: RoundRecords, client: int, gone: list[int], stage: Stage) -> bytes:
        self._bind(current, "order", _order_digest(current))
        inputs, name = self.inputs(current), _released(stage.number)
        if inputs.bounds is not None:
            # What was released under one sketch, for one list, must never serve another.
            self.bind_sketch(current, current.sketch_hash)
            self._bind(current, "verdict", _verdict_digest(inputs))
        blob = self._kept(current.number, name)
        if blob is None:
            blob = self._release(inputs, client, gone, stage)
            if inputs.bounds is not None:
                self.journal.keep(OPENED, Opened.of(inputs).after(self._opened()).to_bytes())
            self._keep(current.number, name, blob)
        return blob

    def _opened(self) -> Opened | None:
        kept = self.journal.kept(OPENED)
        return Opened.from_bytes(kept) if kept is not None else None

    def confirm_commit(self, number: int) -> None:
        """Remember that the commitment is confirmed: a ledger that does not list it afterwards is lying."""
        self.journal.save(self.journal.noted(number).replace(committed=True))

    def _listed(self, current: RoundRecords, name: str, record: Committed | Vouched | Released | None) -> bytes | None:
        data = self.journal.read(current.number, name)
        return data if data is not None and record is not None and cid_of(data).digest == record.digest else None

    def _keep(self, number: int, name: str, blob: bytes) -> None:
        """Have a blob in the journal, and that it was made, before anybody sees it."""
        self.journal.write(number, name, blob)
        note = self.journal.noted(number)
        self.journal.save(note.replace(made=f"{note.made} {name}".strip()))

    def _kept(self, number: int, name: str) -> bytes | None:
        """A blob that was made before; None when it was not."""
        blob = self.journal.read(number, name)
        if blob is None and name in self.journal.noted(number).made.split():
            raise JournalDamaged(f"its {name} of round {number} is missing from its journal")
        return blob

    def _bind(self, current: RoundRecords, name: str, digest: str) -> None:
        """Note what the round's secrets are used for, or compare it with the note."""
        note = self.journal.noted(current.number)
        noted = getattr(note, name)
        if not noted:
            self.journal.save(note.replace(**{name: digest}))
        elif noted != digest:
            raise OrderAbandoned("the chain abandoned the blocks that this client's masks were made for")

    def mask(self, current: RoundRecords, client: int, update: Update) -> bytes:
        return self.method.codec.encode(self.inputs(current), client, self.secrets(current.number), update)

    def _release(self, inputs: RoundInputs, client: int, gone: list[int], stage: Stage) -> bytes:
        fault = overspent(self.method, inputs) or self._second(inputs)
        if fault:
            raise MaskingRefused(fault)
        current, graph = inputs.current, inputs.graph
        position = current.order.index(client)
        blobs = sealed_shares(inputs, graph.held_by[position])
        survivors = tuple(each for each in inputs.survivors if each not in stage.expelled)
        return release(
            graph,
            position,
            held_shares(graph, position, self.secrets(current.number), blobs),
            current.positions(current.shares),
            survivors,
            unavailable=current.positions(gone),
            committed=self._is_survivor(inputs, client, survivors),
            kappa=self.method.config.masking.kappa,
            tensors=self._tensors(current),
        )

    def _is_survivor(self, inputs: RoundInputs, client: int, survivors: Collection[int]) -> bool:
        """Whether this client should be on the list of survivors, as far as it knows; MaskingRefused as ``release``."""
        current = inputs.current
        committed = self.journal.noted(current.number).committed or self.published(current, client) is not None
        if inputs.bounds is None:
            return committed
        if committed != (client in current.commits):
            raise MaskingRefused(f"client {client} is wrongly on the list of commitments, or left out: do not trust it")
        return current.order.index(client) in survivors  # who committed may be out, by others' word or its own

    def _second(self, inputs: RoundInputs) -> str:
        """Why nobody may open a second sum of a model, in one clause; empty where there is none, or it may."""
        if inputs.bounds is None:
            return ""
        opened = self._opened()
        return Opened.of(inputs).fault(opened, most_further(inputs)) if opened is not None else ""

    def _tensors(self, current: RoundRecords) -> int:
        """Number of tensors of the uploads; it matters only where a pair masks a fraction of them."""
        if self.method.config.masking.kappa == 1:
            return 1
        if self.inputs(current).only_evaluates:
            return 0
        return len(self.method.fetch_model(self.store, current.opened.model_digest))


def _released(stage: int) -> str:
    """Name of the shares of a stage in the journal."""
    return f"released{stage or ''}"


def _verdict_digest(inputs: RoundInputs) -> str:
    """Digest of the sketch's block, the commitments and the positions that are summed."""
    current = inputs.current
    commits = b"".join(each.digest for each in current.commits.values())
    return sha256(current.sketch_hash + commits + f"/{inputs.survivors}".encode()).hexdigest()


def _order_digest(current: RoundRecords) -> str:
    """The mask graph: the pairs that mask with each other, and their keys."""
    drawn = (current.draws[client] for client in current.order)
    keys = [b"%d/%d/%b/%b" % (draw.client, draw.samples, draw.mask_key, draw.seal_key) for draw in drawn]
    return sha256(b"/".join([current.fixed_seed.seed, current.sealing.order_root, *keys])).hexdigest()


def _sum_digest(current: RoundRecords) -> str:
    """The order, and who of it takes part in the sum."""
    return sha256(f"{_order_digest(current)}/{current.positions(current.shares)}".encode()).hexdigest()
