"""The client: draws, shares, trains, commits and releases, one step at a time.

A client shares nothing with other roles but the ledger and the store. ``step`` looks at the ledger, does the one thing
that is due, and returns; whoever runs it decides when to call again. Secrets and results of a round are in the journal
before the ledger hears of them, so a killed client goes on where it was (spec 02).
"""

import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path

from chain import tree, vrf
from chain.errors import ContractRevert
from chain.keys import Keys
from chain.ledger import Ledger
from chain.phases import Deadlines
from chain.transactions import Receipt
from ipfs.store import ContentStore, StoreError
from ipfs.unixfs import cid_of
from node.config import FederationConfig
from node.content import MAX_SHARES_BYTES, fetch_available, fetch_model
from node.journal import Journal, RoundNote
from node.learning.samples import Samples
from node.learning.shared import InvalidSharedSet
from node.learning.training import DivergedTraining
from node.local_training import LocalTraining
from node.masking.client import MaskingRefused, RoundSecrets, mask_update, seal_shares
from node.masking.graph import MaskGraph
from node.masking.release import ReleaseRefused, held_shares, release
from node.masking.ring import InvalidVector
from node.rounds import Member, RoundRecords
from node.step import Step, missing
from node.tensors import InvalidModel, Layout, Tensors, flatten
from node.view import LedgerView


class Client:
    """One member of a federation.

    Parameters
    ----------
    ledger : Ledger
        Facade that sends from this client's account.
    store : ContentStore
        Where blobs are put and fetched.
    keys : Keys
        Account, VRF, mailbox and storage key.
    config : FederationConfig
        The terms this client agreed to; rounds opened under other terms are refused.
    samples : Samples
        The private data. It never leaves this object.
    directory : Path
        For the journal.
    executor : Executor, optional
        Where local training runs; without one it runs inside ``step``.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: ContentStore,
        keys: Keys,
        config: FederationConfig,
        samples: Samples,
        directory: Path,
        executor: Executor | None = None,
        confirmations: int = 0,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._keys = keys
        self._config = config
        self._sample_count = len(samples)
        self._journal = Journal(directory, keys.storage)
        self._training = LocalTraining(store, config, samples, self._journal, executor)
        self._unable: tuple[int, str] | None = None
        self._published = 0
        self._refused: dict[tuple[int, str], str] = {}
        self._view = LedgerView(ledger, confirmations)

    @property
    def account(self) -> str:
        return self._keys.address

    def register(self) -> Step:
        """Register keys with the ledger; a no-op when these keys are registered already."""
        receipt = self._ledger.register(self._keys)
        return Step("register", acted="registered", gas=receipt.gas_used)

    def step(self) -> Step:
        """Do what is due now, at most one thing."""
        entry = self._view.refresh()
        try:
            return self._act(entry)
        except StoreError as fault:
            return Step.wait("store", f"the store: {fault}", self._view.block + 1)

    def _act(self, entry: RoundRecords | None) -> Step:
        if entry is None:
            return Step.wait("open", "the coordinator: the first round is not open yet")
        if entry.end is not None:
            self._journal.destroy(before=entry.number)
            return Step.wait("open", f"the coordinator: round {entry.number} has ended, the next is not open yet")
        self._journal.destroy(before=entry.number - 1)
        member = self._view.rounds.member(self.account)
        if member is None:
            return Step.wait("register", "this client: its account is not registered")
        if entry.opened.config_digest != cid_of(self._config.to_bytes()).digest:
            return Step.wait("open", "the coordinator: it opened the round under terms this client did not agree to")
        deadlines = self._view.deadlines(entry)
        if member.client in entry.draws:
            return self._take_part(entry, member, deadlines)
        return self._draw(entry, member, deadlines)

    # --- draw -------------------------------------------------------------------------------------------------------

    def _draw(self, entry: RoundRecords, member: Member, deadlines: Deadlines) -> Step:
        block = self._view.block
        if block < deadlines.seed_block:
            return Step.wait("seeding", "the chain: the round's seed block is not there yet", deadlines.seed_block)
        if block >= deadlines.draw_end or entry.sealed is not None:
            return Step.wait("sit out", "this client: it did not draw in time", deadlines.close_end)
        if member.active_from > entry.opened.opened_at:
            return Step.wait("sit out", "this client: it is active from the next round", deadlines.close_end)
        alpha = tree.draw_alpha(self._ledger.chain_id, self._ledger.address, entry.number, self._view.seed(entry))
        beta = vrf.proof_to_hash(vrf.prove(self._keys.vrf, alpha))
        if not tree.is_drawn(beta, entry.opened.sampling_rate):
            return Step.wait("sit out", "this client: it is not in the round's sample", deadlines.close_end)
        secrets = self._secrets(entry.number)
        keys = (secrets.mask_key, secrets.seal_key)
        send = partial(self._ledger.draw, entry.number, self._keys, alpha, *keys, self._sample_count)
        return self._send(entry, deadlines, "draw", "drew", send)

    def _secrets(self, number: int) -> RoundSecrets:
        """The round's secrets: those in the journal, or fresh ones that are in the journal when this returns."""
        note = self._journal.note(number)
        if note is not None:
            return RoundSecrets.from_bytes(bytes.fromhex(note.secrets))
        secrets = RoundSecrets.generate(os.urandom)
        self._journal.save(RoundNote(number, secrets=secrets.to_bytes().hex()))
        return secrets

    # --- after the draw ---------------------------------------------------------------------------------------------

    def _take_part(self, entry: RoundRecords, member: Member, deadlines: Deadlines) -> Step:
        note = self._journal.note(entry.number)
        if note is None:
            return Step.wait("sit out", "this client: its journal of the round is gone", deadlines.close_end)
        block = self._view.block
        if entry.sealed is None:
            return Step.wait("seal", "anyone: the order of the round is not sealed yet", deadlines.seal_end)
        if block < deadlines.share_end and member.client not in entry.shares:
            return self._share(entry, member, note, deadlines)
        if member.client in entry.commits:
            return self._publish_or_release(entry, member, note, deadlines)
        if member.client in entry.shares and block < deadlines.commit_end:
            return self._train_and_commit(entry, member, note, deadlines)
        return self._release_when_due(entry, member, note, deadlines)

    def _share(self, entry: RoundRecords, member: Member, note: RoundNote, deadlines: Deadlines) -> Step:
        blob = self._journal.read(entry.number, "shares")
        if blob is None:
            blob = seal_shares(self._graph(entry), entry.order.index(member.client), _secrets_of(note), os.urandom)
            self._journal.write(entry.number, "shares", blob)
        send = partial(self._ledger.share, entry.number, self._store.put(blob).digest)
        return self._send(entry, deadlines, "share", "shared", send)

    def _train_and_commit(self, entry: RoundRecords, member: Member, note: RoundNote, deadlines: Deadlines) -> Step:
        if self._unable is not None and self._unable[0] == entry.number:
            return Step.wait("sit out", f"this client: {self._unable[1]}", deadlines.close_end)
        try:
            update = self._training.result(entry, member.client)
            if update is None:
                return Step.wait("train", "this client: it trains", deadlines.commit_end, busy=True)
            if self._view.block < deadlines.share_end:
                return Step.wait("share", missing(entry.draws, entry.shares, "share"), deadlines.share_end)
            masked = self._masked_update(entry, member, note, update)
        except (DivergedTraining, InvalidModel, InvalidSharedSet, InvalidVector, MaskingRefused) as fault:
            self._unable = (entry.number, str(fault))
            return Step.wait("sit out", f"this client: {fault}", deadlines.close_end)
        send = partial(self._ledger.commit, entry.number, cid_of(masked).digest, _secrets_of(note).seed_hash)
        step = self._send(entry, deadlines, "commit", "committed", send)
        if step.acted:
            self._journal.save(replace(note, committed=True))
        return step

    def _publish_or_release(self, entry: RoundRecords, member: Member, note: RoundNote, deadlines: Deadlines) -> Step:
        """The masked update leaves the machine only now that its commitment is confirmed (spec 02, step 4)."""
        digest = entry.commits[member.client].digest
        if self._published != entry.number and not self._store.has(digest):
            masked = self._journal.read(entry.number, "masked")
            if masked is None or cid_of(masked).digest != digest:
                return Step.wait(
                    "sit out", "this client: its masked update is gone from the journal", deadlines.close_end
                )
            self._store.put(masked)
            self._published = entry.number
            return Step("commit", acted="published its masked update")
        return self._release_when_due(entry, member, note, deadlines)

    # --- masking ----------------------------------------------------------------------------------------------------

    def _masked_update(self, entry: RoundRecords, member: Member, note: RoundNote, update: Tensors) -> bytes:
        """Mask the update and keep it in the journal: what is committed must be what is published."""
        stored = self._journal.read(entry.number, "masked")
        if stored is not None:
            return stored
        vector, layout = flatten(update), Layout.of(update)
        masking = self._config.masking
        if masking.masked == "delta":
            vector = vector - flatten(fetch_model(self._store, entry.opened.model_digest, self._config, layout))
        masked = mask_update(
            self._graph(entry),
            entry.order.index(member.client),
            _secrets_of(note),
            entry.positions(entry.shares),
            vector,
            layout,
            bound=masking.bound,
            kappa=masking.kappa,
        )
        data = masked.astype("<u4").tobytes()
        self._journal.write(entry.number, "masked", data)
        return data

    # --- release ----------------------------------------------------------------------------------------------------

    def _release_when_due(self, entry: RoundRecords, member: Member, note: RoundNote, deadlines: Deadlines) -> Step:
        block = self._view.block
        if block < deadlines.commit_end:
            return Step.wait("commit", missing(entry.shares, entry.commits, "commit"), deadlines.commit_end)
        if member.client in entry.releases:
            return Step.wait("close", "the coordinator: it recovers and closes the round", deadlines.close_end)
        if block >= deadlines.recover_end:
            return Step.wait("recover", "the coordinator: the round is overdue", deadlines.close_end)
        try:
            blob = self._released_blob(entry, member, note)
        except ReleaseRefused as refusal:
            return Step.wait("recover", f"the coordinator: nothing is released, {refusal}", deadlines.recover_end)
        send = partial(self._ledger.release, entry.number, self._store.put(blob).digest)
        return self._send(entry, deadlines, "recover", "released shares", send)

    def _released_blob(self, entry: RoundRecords, member: Member, note: RoundNote) -> bytes:
        """The shares to release. The blob is in the journal before anyone sees it, so it never changes."""
        stored = self._journal.read(entry.number, "released")
        if stored is not None:
            return stored
        graph, position = self._graph(entry), entry.order.index(member.client)
        digests = {entry.order.index(client): record.digest for client, record in entry.shares.items()}
        blobs = fetch_available(self._store, digests, MAX_SHARES_BYTES)
        held = held_shares(graph, position, _secrets_of(note), blobs)
        gone = [client for client, record in entry.commits.items() if not self._store.has(record.digest)]
        blob = release(
            graph,
            position,
            held,
            entry.positions(entry.shares),
            entry.positions(entry.commits),
            unavailable=entry.positions(gone),
            committed=self._committed(entry, member, note),
            kappa=self._config.masking.kappa,
            tensors=self._tensors(entry),
        )
        self._journal.write(entry.number, "released", blob)
        return blob

    def _committed(self, entry: RoundRecords, member: Member, note: RoundNote) -> bool:
        """Whether this client knows that it committed: by the receipt, or because what is listed is in its journal."""
        masked = self._journal.read(entry.number, "masked")
        listed = entry.commits.get(member.client)
        return note.committed or (listed is not None and masked is not None and cid_of(masked).digest == listed.digest)

    def _send(
        self, entry: RoundRecords, deadlines: Deadlines, phase: str, acted: str, send: Callable[[], Receipt]
    ) -> Step:
        """Send a transaction. What the ledger refused once (too late, say) is not tried, and paid for, again."""
        refusal = self._refused.get((entry.number, phase))
        if refusal is None:
            try:
                return Step(phase, acted=acted, gas=send().gas_used)
            except ContractRevert as revert:
                refusal = str(revert)
                self._refused = {(entry.number, phase): refusal, **self._refused_in(entry.number)}
        return Step.wait("sit out", f"this client: the ledger refused its transaction ({refusal})", deadlines.close_end)

    def _refused_in(self, number: int) -> dict[tuple[int, str], str]:
        return {key: reason for key, reason in self._refused.items() if key[0] == number}

    def _tensors(self, entry: RoundRecords) -> int:
        """Number of tensors of the model; it matters only where a pair masks a fraction of them."""
        if self._config.masking.kappa == 1:
            return 1
        return len(fetch_model(self._store, entry.opened.model_digest, self._config))

    def _graph(self, entry: RoundRecords) -> MaskGraph:
        return entry.graph(self._ledger.chain_id, self._ledger.address, self._config.masking)


def _secrets_of(note: RoundNote) -> RoundSecrets:
    return RoundSecrets.from_bytes(bytes.fromhex(note.secrets))
