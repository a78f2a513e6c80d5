"""What a client lets out of its hands in a round: sealed shares, one masked update, released shares.

Each is made once, is in the journal before anybody sees it, and never changes. It is bound to the order (and, from the
update on, to the list of shares) that it was made for: masks that were used once must never hide another sum. So when
the chain abandons the blocks that fixed these, the client sits out the round instead of doing anything twice.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

from fedgrove.chain.records import Committed, Released
from fedgrove.ipfs.store import ContentStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.client import RoundSecrets, seal_shares
from fedgrove.node.masking.release import ReleaseRefused, held_shares, release
from fedgrove.node.masking.survivors import all_summed
from fedgrove.node.protocol.aggregation import overspent, sealed_shares
from fedgrove.node.protocol.content import Update, unavailable
from fedgrove.node.protocol.journal import Journal, JournalDamaged, RoundNote
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords


class OrderAbandoned(RuntimeError):
    """The chain now states another order or other shares than those that this client's secrets were used for."""


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

    def __init__(
        self,
        journal: Journal,
        store: ContentStore,
        method: Method,
        inputs: Callable[[RoundRecords], RoundInputs],
    ) -> None:
        self._journal = journal
        self._store = store
        self._method = method
        self._config = method.config
        self._inputs = inputs

    def secrets(self, number: int) -> RoundSecrets:
        """The round's secrets: those in the journal, or fresh ones that are in the journal when this returns."""
        note = self._journal.note(number)
        if note is None:
            note = RoundNote(number, secrets=RoundSecrets.generate(os.urandom).to_bytes().hex())
            self._journal.save(note)
        return RoundSecrets.from_bytes(bytes.fromhex(note.secrets))

    def shares(self, entry: RoundRecords, client: int) -> bytes:
        """This client's sealed shares for the others (spec 02, step 3)."""
        self._bind(entry, "order", _order_digest(entry))
        blob = self._kept(entry.number, "shares")
        if blob is None:
            graph = self._inputs(entry).graph
            blob = seal_shares(graph, entry.order.index(client), self.secrets(entry.number), os.urandom)
            self._keep(entry.number, "shares", blob)
        return blob

    def masked(self, entry: RoundRecords, client: int, update: Update) -> bytes:
        """The masked update (spec 02, step 4); call it when the list of shares is final."""
        self._bind(entry, "order", _order_digest(entry))
        self._bind(entry, "summed", _sum_digest(entry))
        data = self._kept(entry.number, "masked")
        if data is None:
            if self._method.accounting.budget is not None:
                self._journal.count_upload(entry.number)  # before there are bytes: a crash refunds nothing
            data = self._mask(entry, client, update)
            self._keep(entry.number, "masked", data)
        return data

    def published(self, entry: RoundRecords, client: int) -> bytes | None:
        """The masked update if it is the one that the ledger lists, else None."""
        return self._listed(entry, "masked", entry.commits.get(client))

    def listed_release(self, entry: RoundRecords, client: int) -> bytes | None:
        """The shares that it released if they are those that the ledger lists, else None."""
        return self._listed(entry, "released", entry.releases.get(client))

    def unpublished(self, entry: RoundRecords, client: int) -> list[int]:
        """Clients whose update this one witnesses and cannot have; none once the shares to release are chosen.

        Each update that is to be summed has a few witnesses: nobody waits, or looks, for those of all others.
        """
        if not entry.commits or self._journal.read(entry.number, "released") is not None:
            return []
        round = self._inputs(entry)
        graph, position = round.graph, entry.order.index(client)
        summed = all_summed(graph, entry.positions(entry.commits))
        witnessed = [
            owner for owner in graph.held_by[position] if owner in summed and position in graph.witnesses(owner)
        ]
        codec = self._method.codec
        sizes = {entry.order[owner]: codec.expected_bytes(round, entry.order[owner]) for owner in witnessed}
        return unavailable(self._store, {owner: entry.commits[owner].digest for owner in sizes}, sizes)

    def released(self, entry: RoundRecords, client: int, gone: list[int]) -> bytes:
        """The shares that this client releases (spec 02, step 5), given whose update cannot be had.

        Raises
        ------
        node.masking.release.ReleaseRefused
            Releasing them would expose somebody.
        """
        self._bind(entry, "order", _order_digest(entry))
        blob = self._kept(entry.number, "released")
        if blob is None:
            blob = self._release(entry, client, gone)
            self._keep(entry.number, "released", blob)
        return blob

    def confirm_commit(self, number: int) -> None:
        """Remember that the commitment is confirmed: a ledger that does not list it afterwards is lying."""
        self._journal.save(replace(self._journal.noted(number), committed=True))

    def _listed(self, entry: RoundRecords, name: str, record: Committed | Released | None) -> bytes | None:
        data = self._journal.read(entry.number, name)
        return data if data is not None and record is not None and cid_of(data).digest == record.digest else None

    def _keep(self, number: int, name: str, blob: bytes) -> None:
        """Have a blob in the journal, and that it was made, before anybody sees it."""
        self._journal.write(number, name, blob)
        note = self._journal.noted(number)
        self._journal.save(replace(note, made=f"{note.made} {name}".strip()))

    def _kept(self, number: int, name: str) -> bytes | None:
        """A blob that was made before; None when it was not."""
        blob = self._journal.read(number, name)
        if blob is None and name in self._journal.noted(number).made.split():
            raise JournalDamaged(f"what it made of round {number} ({name}) is gone from its journal")
        return blob

    def _bind(self, entry: RoundRecords, name: str, digest: str) -> None:
        """Note what the round's secrets are used for, or hold it against the note."""
        note = self._journal.noted(entry.number)
        noted = getattr(note, name)
        if not noted:
            self._journal.save(replace(note, **{name: digest}))
        elif noted != digest:
            raise OrderAbandoned("the chain abandoned the blocks that this client's masks were made for")

    def _mask(self, entry: RoundRecords, client: int, update: Update) -> bytes:
        return self._method.codec.encode(self._inputs(entry), client, self.secrets(entry.number), update)

    def _release(self, entry: RoundRecords, client: int, gone: list[int]) -> bytes:
        round = self._inputs(entry)
        fault = overspent(self._method, round)
        if fault:
            raise ReleaseRefused(fault)
        graph, position = round.graph, entry.order.index(client)
        blobs = sealed_shares(round, graph.held_by[position])
        committed = self._journal.noted(entry.number).committed or self.published(entry, client) is not None
        return release(
            graph,
            position,
            held_shares(graph, position, self.secrets(entry.number), blobs),
            entry.positions(entry.shares),
            entry.positions(entry.commits),
            unavailable=entry.positions(gone),
            committed=committed,
            kappa=self._config.masking.kappa,
            tensors=self._tensors(entry),
        )

    def _tensors(self, entry: RoundRecords) -> int:
        """Number of tensors of the model; it matters only where a pair masks a fraction of them."""
        if self._config.masking.kappa == 1:
            return 1
        return len(self._method.fetch_model(self._store, entry.opened.model_digest))


def _order_digest(entry: RoundRecords) -> str:
    """Who masks with whom, and under which keys."""
    drawn = (entry.draws[client] for client in entry.order)
    keys = [b"%d/%d/%b/%b" % (draw.client, draw.samples, draw.mask_key, draw.seal_key) for draw in drawn]
    return sha256(b"/".join([entry.fixed_seed.seed, entry.sealing.order_root, *keys])).hexdigest()


def _sum_digest(entry: RoundRecords) -> str:
    """The order, and who of it takes part in the sum."""
    return sha256(f"{_order_digest(entry)}/{entry.positions(entry.shares)}".encode()).hexdigest()
