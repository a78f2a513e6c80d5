"""The client: draws, shares, trains, commits and releases, one step at a time.

A client shares nothing with other roles but the ledger and the store. ``step`` looks at the ledger, does the one thing
that is due, and returns; whoever runs it decides when to call again. Secrets and results of a round are in the journal
before the ledger hears of them, so a killed client goes on where it was (spec 02). Before it trains on a closed round's
model it recomputes it, and disputes what is wrong.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Union

import numpy as np
from fedgrove.chain import tree, vrf
from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.keys import Keys
from fedgrove.chain.ledger import Ledger
from fedgrove.chain.phases import Deadlines
from fedgrove.chain.records import Closed
from fedgrove.chain.transactions import Receipt
from fedgrove.ipfs.store import ContentStore, NotFound
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import InvalidModel
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.masking.release import ReleaseRefused
from fedgrove.node.masking.ring import InvalidVector
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.closing import Closings, evidence
from fedgrove.node.protocol.content import InvalidBlob, Update
from fedgrove.node.protocol.journal import Journal, JournalDamaged
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.local_work import CannotTakePart, Diverged, StateLost
from fedgrove.node.protocol.method import Workplace
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import Member, RoundRecords
from fedgrove.node.protocol.spending import Spending
from fedgrove.node.protocol.step import Step, attempt, missing, name_clients
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.roles.company import refusal
from fedgrove.node.roles.disclosure import Disclosure, OrderAbandoned
from fedgrove.node.roles.twins import Twins

if TYPE_CHECKING:
    from fedgrove.node.learning.samples import Samples


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
    samples : Samples, or array of points
        The private data. It never leaves this object, but for the journal where points are clustered.
    directory : Path
        For the journal.
    executor : Executor, optional
        Where local training runs; without one it runs inside ``step``.
    confirmations : int
        Blocks that must lie on top of a record before it is acted on.
    check_rounds : float
        Fraction of the closed rounds that this client recomputes at least (``node.protocol.closing``).
    """

    def __init__(
        self,
        ledger: Ledger,
        store: ContentStore,
        keys: Keys,
        config: FederationConfig,
        samples: Union["Samples", np.ndarray],
        directory: Path,
        executor: Executor | None = None,
        confirmations: int = 0,
        check_rounds: float = 0.0,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._keys = keys
        self._config = config
        self._journal = Journal(directory, keys.storage)
        self._method = method_of(config)
        self._work = self._method.work(
            Workplace(store, samples, self._journal, executor, lambda: self.view.rounds, self._inputs, keys)
        )
        self._disclosure = Disclosure(self._journal, store, self._method, self._inputs)
        chain = (ledger.block_hash, ledger.deployment.block)
        self._closings = Closings(store, self._method, self._inputs, check_rounds, self._lot, *chain)
        self._twins = Twins(self._journal)
        self._unable: tuple[int, str] | None = None
        self._published = 0
        self._released = 0
        self._refused: dict[tuple[int, str], str] = {}
        first = self._method.first_model()
        self._first_model = cid_of(first).digest
        self._parameters = self._method.parameters_of(self._method.read_model(first))
        self.view = LedgerView(ledger, confirmations)
        self.finished = False

    @property
    def account(self) -> str:
        return self._keys.address

    @property
    def alarm(self) -> str:
        """What people must hear of at once, in one sentence; empty when there is nothing."""
        return self._twins.alarm

    def register(self) -> Step:
        """Register keys with the ledger; nothing is sent when these keys are registered already."""
        if self._ledger.client_of(self.account).client and self._ledger.holds_vrf_key(self._keys):
            return Step.wait("register", "the chain: the registration is not confirmed yet", self.view.block + 1)
        receipt = self._ledger.register(self._keys)
        return Step("register", acted="registered", gas=receipt.gas_used)

    def step(self) -> Step:
        """Do what is due now, at most one thing."""
        entry = self.view.refresh()
        try:
            return attempt(lambda: self._act(entry), self.view.block)
        except (InvalidBlob, InvalidModel, JournalDamaged, MaskingRefused, OrderAbandoned) as fault:
            return Step.wait("sit out", f"this client: {fault}", self.view.deadlines(entry).close_end)

    def _act(self, entry: RoundRecords | None) -> Step:
        member = self.view.rounds.member(self.account)
        if member is None:
            return self.register()
        if entry is None:
            return Step.wait("open", "the coordinator: the first round is not open yet")
        self._twins.look(self.view.rounds, member.client, self.view.block)
        running = entry.end is None
        if self.view.rounds.left(member.client) and not (running and member.client in entry.draws):
            return self._leave(entry)
        self._journal.destroy(before=entry.number - 1 if running else entry.number)
        step = self._refuse(entry, member)
        if step is None or self.view.rounds.disputed_by(member.client) is not None:
            self._work.settle(member.client)
        if step is None and running:
            return self._in_round(entry, member)
        over = "" if running else self._over(entry)
        self.finished = bool(over) and (step is None or not step.acted)
        who = f"nobody: {over}" if over else "the coordinator: the next round is not open yet"
        return step or Step.wait("open", who)

    def _leave(self, entry: RoundRecords) -> Step:
        """Nothing of this client is summed any more: destroy what it kept for that."""
        if not self.finished:
            self._journal.destroy(before=entry.number)
            self._work.leave()
            self.finished = True
        return Step.wait("done", "nobody: this client has taken back its data, and left")

    def _over(self, entry: RoundRecords) -> str:
        """Why there will be no round after this one, in one clause; empty when there will be."""
        terms = self._config.federation
        if self.view.rounds.all_held(terms.rounds, terms.repeats):
            return "all rounds have ended"
        return self._spending().exhausted(entry.number + 1)

    def _spending(self) -> Spending:
        return Spending(self._method, self._store, self.view.rounds, self._parameters)

    def _in_round(self, entry: RoundRecords, member: Member) -> Step:
        if entry.opened.config_digest != cid_of(self._config.to_bytes()).digest:
            return Step.wait("open", "the coordinator: it opened the round under terms this client did not agree to")
        if self.view.rounds.base is None and entry.opened.model_digest != self._first_model:
            return Step.wait("open", "its members: training does not start from the model that the terms say")
        deadlines = self.view.deadlines(entry)
        if member.client in entry.draws:
            return self._take_part(entry, member, deadlines)
        return self._draw(entry, member, deadlines)

    # --- the round before -------------------------------------------------------------------------------------------

    def _refuse(self, entry: RoundRecords, member: Member) -> Step | None:
        """Dispute a closed round that is wrong, and refuse whatever was trained from it; None when all is well."""
        base = self.view.rounds.base
        disputed = self.view.rounds.disputed_by(member.client)
        if disputed is not None:
            return Step.wait("dispute", f"other members: this client disputes round {disputed.number}, which stands")
        fault = self._base_fault(entry, base, member.client) if base is not None else ""
        if not fault:
            return None
        if member.client not in base.commits:
            return Step.wait("dispute", f"its members: this client refuses the model of round {base.number}, {fault}")
        digest = self._store.put(evidence(base, fault)).digest
        send = partial(self._ledger.dispute, base.number, digest)
        return self._send(base, "dispute", f"disputed round {base.number}: {fault}", send)

    def _base_fault(self, entry: RoundRecords, base: RoundRecords, client: int) -> str:
        try:
            return self._closings.fault(base, client)
        except NotFound as fault:
            # It may still be on its way. A model that nobody can check before the next draw is over is refused.
            last = self.view.deadlines(entry)
            if self.view.block < (last.draw_end if entry.number > base.number else last.close_end):
                raise
            return str(fault)

    # --- draw -------------------------------------------------------------------------------------------------------

    def _draw(self, entry: RoundRecords, member: Member, deadlines: Deadlines) -> Step:
        block = self.view.block
        if block < deadlines.seed_block:
            return Step.wait("seeding", "the chain: the round's seed block is not there yet", deadlines.seed_block)
        if block >= deadlines.draw_end or entry.sealed is not None:
            return Step.wait("sit out", "this client: it did not draw in time", deadlines.close_end)
        if member.active_from > entry.opened.opened_at:
            return Step.wait("sit out", "this client: it is active from the next round", deadlines.close_end)
        barred = self._barred(entry, member) or self._unaffordable(entry, member)
        if barred:
            return Step.wait("sit out", barred, deadlines.close_end)
        alpha = tree.draw_alpha(self._ledger.chain_id, self._ledger.address, entry.number, self.view.seed(entry))
        beta = vrf.proof_to_hash(vrf.prove(self._keys.vrf, alpha))
        if not tree.is_drawn(beta, entry.opened.sampling_rate):
            return Step.wait("sit out", "this client: it is not in the round's sample", deadlines.close_end)
        secrets = self._disclosure.secrets(entry.number)
        keys = (secrets.mask_key, secrets.seal_key)
        try:
            samples = self._work.samples(entry, member.client) if self._method.codec.weighs_samples else 1
        except CannotTakePart as fault:
            return Step.wait("sit out", f"this client: {fault}", deadlines.close_end)
        send = partial(self._ledger.draw, entry.number, self._keys, alpha, *keys, samples)
        return self._send(entry, "draw", "drew", send)

    def _barred(self, entry: RoundRecords, member: Member) -> str:
        """Why this client does not draw, or the ledger would refuse it; empty when nothing is in the way."""
        waiting = self._twins.waiting(self.view.rounds, member.client, entry.number)
        return f"this client: {waiting}" if waiting else self.view.rules.barred(member, entry)

    def _unaffordable(self, entry: RoundRecords, member: Member) -> str:
        """Why this client's privacy budget forbids it to draw, empty when it does not."""
        refusal = self._spending().refusal(member.client, entry.number, self._journal.uploads())
        return f"this client: {refusal}" if refusal else ""

    # --- after the draw ---------------------------------------------------------------------------------------------

    def _take_part(self, entry: RoundRecords, member: Member, deadlines: Deadlines) -> Step:
        if self._journal.note(entry.number) is None:
            return Step.wait("sit out", "this client: its journal of the round is gone", deadlines.close_end)
        block = self.view.block
        if entry.sealed is None:
            return Step.wait("seal", "anyone: the order of the round is not sealed yet", deadlines.seal_end)
        alone = refusal(self.view.rounds, entry, self._config)
        if alone and member.client not in entry.commits:
            return Step.wait("sit out", f"its members: this client refuses the round, {alone}", deadlines.close_end)
        if block < deadlines.share_end and member.client not in entry.shares:
            return self._share(entry, member)
        if member.client in entry.commits:
            return self._publish_or_release(entry, member, deadlines)
        if member.client in entry.shares and block < deadlines.commit_end:
            return self._train_and_commit(entry, member, deadlines)
        return self._release_when_due(entry, member, deadlines)

    def _share(self, entry: RoundRecords, member: Member) -> Step:
        blob = self._disclosure.shares(entry, member.client)
        send = partial(self._ledger.share, entry.number, self._store.put(blob).digest)
        return self._send(entry, "share", "shared", send)

    def _train_and_commit(self, entry: RoundRecords, member: Member, deadlines: Deadlines) -> Step:
        if self._unable is not None and self._unable[0] == entry.number:
            return Step.wait("sit out", f"this client: {self._unable[1]}", deadlines.close_end)
        try:
            update = self._update(entry, member)
            if update is None:
                return Step.wait("train", "this client: it trains", deadlines.commit_end, busy=True)
            if self.view.block < deadlines.share_end:
                return Step.wait("share", missing(entry.draws, entry.shares, "share"), deadlines.share_end)
            masked = self._disclosure.masked(entry, member.client, update)
            remark = self._method.codec.remark(self._inputs(entry), update)
        except StateLost as loss:
            return Step("train", acted=f"removed what its strategy kept, and trains without: {loss}")
        except (CannotTakePart, InvalidBlob, InvalidModel, InvalidVector, MaskingRefused) as fault:
            self._unable = (entry.number, str(fault))
            return Step.wait("sit out", f"this client: {fault}", deadlines.close_end)
        seed_hash = self._disclosure.secrets(entry.number).seed_hash
        send = partial(self._ledger.commit, entry.number, cid_of(masked).digest, seed_hash)
        step = self._send(entry, "commit", f"committed {remark}".strip(), send)
        if step.acted:
            self._disclosure.confirm_commit(entry.number)
        return step

    def _update(self, entry: RoundRecords, member: Member) -> Update | None:
        """The trained model, or what stands in for one that diverged; None while training is under way."""
        try:
            return self._work.result(entry, member.client)
        except Diverged:
            update = self._method.codec.in_place_of_diverged(self._inputs(entry))
            if update is None:
                raise
            return update

    def _publish_or_release(self, entry: RoundRecords, member: Member, deadlines: Deadlines) -> Step:
        """The masked update leaves the machine only now that its commitment is confirmed (spec 02, step 4)."""
        listed = entry.commits[member.client].digest
        if self._published != entry.number and self._store.has(listed):
            self._store.pin(listed)  # a process that was killed while it published may not have come to that
            self._published = entry.number
        if self._published != entry.number:
            masked = self._disclosure.published(entry, member.client)
            if masked is None:
                reason = "this client: its masked update is gone from the journal"
                return Step.wait("sit out", reason, deadlines.close_end)
            self._store.put(masked)
            self._published = entry.number
            return Step("commit", acted="published its masked update")
        return self._release_when_due(entry, member, deadlines)

    def _release_when_due(self, entry: RoundRecords, member: Member, deadlines: Deadlines) -> Step:
        block = self.view.block
        if block < deadlines.commit_end:
            return Step.wait("commit", missing(entry.shares, entry.commits, "commit"), deadlines.commit_end)
        if member.client in entry.releases:
            return self._publish_release(entry, member, deadlines)
        if block >= deadlines.recover_end:
            return Step.wait("recover", "the coordinator: the round is overdue", deadlines.close_end)
        gone = self._disclosure.unpublished(entry, member.client)
        patience = deadlines.commit_end + self.view.settings.recover_window // 2
        if gone and block < patience:
            # An update is published after its commitment is confirmed: the last one may still be on its way.
            return Step.wait("recover", f"{name_clients(gone)} to publish what they committed to", patience)
        try:
            blob = self._disclosure.released(entry, member.client, gone)
        except ReleaseRefused as refusal:
            return Step.wait("recover", f"the coordinator: nothing is released, {refusal}", deadlines.recover_end)
        send = partial(self._ledger.release, entry.number, cid_of(blob).digest)
        step = self._send(entry, "recover", "released shares", send)
        self.view.refresh()
        if member.client in entry.releases:
            self._publish_release(entry, member, deadlines)  # at once: others look for what is listed
        return step

    def _publish_release(self, entry: RoundRecords, member: Member, deadlines: Deadlines) -> Step:
        """Shares leave the machine only now that the ledger lists their release: what it does not list is not spent."""
        if self._released != entry.number:
            blob = self._disclosure.listed_release(entry, member.client)
            fresh = blob is not None and not self._store.has(entry.releases[member.client].digest)
            if fresh:
                self._store.put(blob)
            self._released = entry.number
            if fresh:
                return Step("recover", acted="published the shares that it released")
        return Step.wait("close", "the coordinator: it recovers and closes the round", deadlines.close_end)

    # --- sending ----------------------------------------------------------------------------------------------------

    def _send(self, entry: RoundRecords, phase: str, acted: str, send: Callable[[], Receipt]) -> Step:
        """Send a transaction. What the ledger refused once (too late, say) is not tried, and paid for, again."""
        refusal = self._refused.get((entry.number, phase))
        if refusal is None:
            try:
                return Step(phase, acted=acted, gas=send().gas_used)
            except ContractRevert as revert:
                refusal = str(revert)
                self._refused = {(entry.number, phase): refusal, **self._refused_in(entry.number)}
        reason = f"this client: the ledger refused its transaction ({refusal})"
        end = self.view.deadlines(entry).close_end
        return Step.wait("sit out", reason, end if end > self.view.block else 0)

    def _refused_in(self, number: int) -> dict[tuple[int, str], str]:
        return {key: reason for key, reason in self._refused.items() if key[0] == number}

    def _lot(self, end: Closed) -> float:
        """This client's lot for a closing, uniform in [0, 1): its VRF, whose output nobody else can know."""
        alpha = b"fedgrove check 1" + end.round.to_bytes(8, "big") + end.model_digest + end.metrics_digest
        beta = vrf.proof_to_hash(vrf.prove(self._keys.vrf, sha256(alpha).digest()))
        return int.from_bytes(beta[:8], "big") / 2**64

    def _inputs(self, entry: RoundRecords) -> RoundInputs:
        ledger = (self._ledger.chain_id, self._ledger.address)
        return self._method.inputs(self.view.rounds, entry, ledger, self._store)
