"""The coordinator: opens rounds, seals the order, recovers dropouts, closes with the next model.

It holds no secret but its account key and decides nothing that others cannot recompute: the sample is drawn by VRF, the
survivors are the ledger's commit list, the closed model is a deterministic function of both.
"""

import json
from collections.abc import Mapping

from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.ledger import MAX_REPORT, Ledger
from fedgrove.chain.phases import Deadlines
from fedgrove.chain.records import FailureReason
from fedgrove.ipfs.store import BlobError, ContentStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import InvalidModel, Layout, load
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.recovery import (
    InvalidRecovery,
    RecoveryRecord,
    TooFewShares,
    most_record_bytes,
    unavailable_updates,
)
from fedgrove.node.masking.survivors import UnsafeSurvivors, needed_secrets
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.aggregation import outcome, recovered, recovery, released_shares
from fedgrove.node.protocol.content import InvalidBlob, Metrics, unavailable
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.method import Aides
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.spending import Spending
from fedgrove.node.protocol.step import Step, attempt, missing, name_clients
from fedgrove.node.protocol.terms import FederationConfig

NOTHING = Aides()


class Coordinator:
    """Drives a federation's rounds.

    Parameters
    ----------
    ledger : Ledger
        Facade that sends from the coordinator's account.
    store : ContentStore
        Must hold the config and, before the first round, get the initial model.
    config : FederationConfig
        The terms of the federation.
    initial_model : bytes
        Safetensors bytes of θ₁.
    aides : Aides, optional
        How models are evaluated, and what is stated beside them. Without statements others must close the rounds that
        need one.
    confirmations : int
        Blocks that must lie on top of a record before it is acted on.
    members : int
        So many must be active before the first round is opened, at least the quorum.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: ContentStore,
        config: FederationConfig,
        initial_model: bytes,
        aides: Aides = NOTHING,
        confirmations: int = 0,
        members: int = 0,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._config = config
        self._initial_model = initial_model
        # Only spending depends on it: without a mechanism a wrong model is for others to refuse.
        self._parameters = Layout.of(load(initial_model)).length if config.privacy is not None else 0
        self._method = method_of(config)
        self._aides = aides
        self._aggregated: tuple[tuple[bytes, ...], Outcome] | None = None
        self._unreported = 0
        self.view = LedgerView(ledger, confirmations)
        self._members = max(members, self.view.settings.quorum)

    @property
    def account(self) -> str:
        return self._ledger.account

    @property
    def round(self) -> int:
        """Number of the latest round; 0 before the first."""
        return self.view.rounds.latest.number if self.view.rounds.latest else 0

    @property
    def finished(self) -> bool:
        """All rounds that the federation can hold have ended and their absences are reported."""
        latest = self.view.rounds.latest
        over = self._all_held() or (latest is not None and bool(self._exhausted()))
        return over and not self._absent(latest)

    def _all_held(self) -> bool:
        terms = self._config.federation
        return self.view.rounds.all_held(terms.rounds, terms.repeats)

    def step(self) -> Step:
        """Do what is due now, at most one thing."""
        entry = self.view.refresh()
        try:
            return attempt(lambda: self._act(entry), self.view.block)
        except ContractRevert as refusal:
            # Somebody else was quicker, or a window closed while the transaction was on its way: look again.
            return Step.wait("refused", f"the chain: the ledger refused a transaction ({refusal})", self.view.block + 1)
        except (InvalidBlob, InvalidModel) as fault:
            return Step.wait("content", f"members to dispute what the round rests on: {fault}", self.view.block + 1)

    def _act(self, entry: RoundRecords | None) -> Step:
        if entry is None:
            return self._open_first()
        if entry.end is not None:
            return self._between_rounds(entry)
        deadlines = self.view.deadlines(entry)
        if entry.sealed is None:
            return self._until_sealed(entry, deadlines)
        if entry.recovered is not None:
            return self._close(entry, deadlines)
        return self._until_recovered(entry, deadlines)

    # --- open -------------------------------------------------------------------------------------------------------

    def _open_first(self) -> Step:
        active = [each for each in self.view.rounds.members.values() if each.active_from <= self.view.block + 1]
        if len(active) < self._members:
            return Step.wait("open", f"members to register: {len(active)} of {self._members} are active")
        return self._open(cid_of(self._initial_model).digest)

    def _open(self, model_digest: bytes) -> Step:
        self._store.put(self._initial_model)
        self._store.put(self._config.to_bytes())
        receipt = self._ledger.open(model_digest)
        return Step("open", acted="opened a round", gas=receipt.gas_used)

    def _between_rounds(self, entry: RoundRecords) -> Step:
        absent = self._absent(entry)
        if absent:
            accounts = [self.view.rounds.members[client].account for client in absent]
            try:
                receipt = self._ledger.report_absences(entry.number, accounts)
            except ContractRevert as refusal:
                # Training does not wait for a report: another member may have been quicker.
                self._unreported = entry.number
                return Step.wait("open", f"nobody: absences stay unreported ({refusal})", self.view.block + 1)
            return Step("open", acted=f"reported absent: {name_clients(absent)}", gas=receipt.gas_used)
        if self._all_held():
            return Step.wait("done", "nobody: all rounds have ended")
        exhausted = self._exhausted()
        if exhausted:
            return Step.wait("done", f"nobody: {exhausted}")
        return self._open_when_due()

    def _open_when_due(self) -> Step:
        rounds, block = self.view.rounds, self.view.block
        standing = rounds.model_digest
        due = self._method.schedule.due(rounds, lambda: self._method.fetch_model(self._store, standing), block)
        if due is None:
            return Step.wait("idle", "members: nothing has changed since the last round")
        if block < due:
            return Step.wait("open", "members who were away or are new: the next round is for them", due)
        return self._open(standing)

    def _exhausted(self) -> str:
        """Why no further round can have enough clients, in one clause; empty while a round runs or one can."""
        latest = self.view.rounds.latest
        return self._spending().exhausted(latest.number + 1) if latest.end is not None else ""

    def _overspent(self, entry: RoundRecords) -> str:
        """Whose privacy budget the round's sum would exceed, in one clause; empty when nobody's."""
        return self._spending().overspent(entry)

    def _spending(self) -> Spending:
        return Spending(self._method, self._store, self.view.rounds, self._parameters)

    def _absent(self, entry: RoundRecords) -> list[int]:
        """Clients to report of a closed round: all of its order without a commitment, unless they were reported."""
        if entry.number == self._unreported or not entry.stands or entry.absences:
            return []
        absent = [client for client in entry.order if client not in entry.commits]
        return absent if len(absent) <= MAX_REPORT else []

    # --- seed, draw, seal -------------------------------------------------------------------------------------------

    def _until_sealed(self, entry: RoundRecords, deadlines: Deadlines) -> Step:
        block = self.view.block
        if block >= deadlines.seal_end:
            return self._overdue(entry)
        if block < deadlines.seed_block:
            return Step.wait("seeding", "the chain: the round's seed block", deadlines.seed_block)
        if entry.seed is None and block < deadlines.draw_end:
            receipt = self._ledger.fix_seed(entry.number)
            return Step("seeding", acted="fixed the seed", gas=receipt.gas_used)
        if block < deadlines.draw_end:
            rounds = self.view.rounds
            awaited = (client for client in rounds.members if not rounds.left(client))
            return Step.wait("draw", missing(awaited, entry.draws, "draw"), deadlines.draw_end)
        if len(entry.draws) < self.view.settings.quorum:
            receipt = self._ledger.skip(entry.number)
            return Step("seal", acted=f"skipped the round: {len(entry.draws)} drawn", gas=receipt.gas_used)
        if block <= deadlines.order_block:
            # Sealed only once it is confirmed, so that the order does not change under those who act on it.
            return Step.wait("seal", "the chain: the block that orders the clients", deadlines.order_block + 1)
        receipt = self._ledger.seal(entry.number, entry.tickets, deadlines.order_block)
        return Step("seal", acted=f"sealed the order of {len(entry.draws)}", gas=receipt.gas_used)

    # --- share, commit, recover -------------------------------------------------------------------------------------

    def _until_recovered(self, entry: RoundRecords, deadlines: Deadlines) -> Step:
        block = self.view.block
        if block < deadlines.share_end:
            return Step.wait("share", missing(entry.draws, entry.shares, "share"), deadlines.share_end)
        if block < deadlines.commit_end:
            return Step.wait("commit", missing(entry.shares, entry.commits, "commit"), deadlines.commit_end)
        if block >= deadlines.recover_end:
            return self._overdue(entry)
        round = self._inputs(entry)
        try:
            needed_secrets(round.graph, round.sharers, round.survivors)
        except UnsafeSurvivors as fault:
            return self._fail(entry, FailureReason.TOO_FEW_SURVIVORS, {"reason": str(fault)})
        beyond = self._overspent(entry)
        if beyond:
            return self._fail(entry, FailureReason.TOO_FEW_SURVIVORS, {"reason": beyond})
        return self._recover(round, deadlines)

    def _recover(self, round: RoundInputs, deadlines: Deadlines) -> Step:
        entry, released = round.entry, released_shares(round)
        gone = self._gone(round, released)
        if gone and not round.graph.groups:
            return self._fail(entry, FailureReason.UPDATE_UNAVAILABLE, {"clients": gone})
        try:
            record = self._recovered(round, released, gone, deadlines)
        except TooFewShares as lack:
            if lack.owner_lied or self._is_last_call(round, released, deadlines):
                return self._fail(entry, FailureReason.TOO_FEW_SHARES, {"reason": str(lack)})
            reason = f"{missing(entry.draws, entry.releases, 'release shares')} ({lack})"
            return Step.wait("recover", reason, deadlines.recover_end)
        try:
            self._outcome(round, record)
        except (InvalidUpdate, InvalidModel) as fault:
            return self._fail(entry, FailureReason.INVALID_UPDATE, {"reason": str(fault)})
        except BlobError as fault:
            if self._is_last_call(round, released, deadlines):
                return self._fail(entry, FailureReason.UPDATE_UNAVAILABLE, {"reason": str(fault)})
            return Step.wait("recover", f"what others published: {fault}", deadlines.recover_end)
        receipt = self._ledger.recover(entry.number, self._store.put(record.to_bytes()).digest)
        out = f", {len(record.left_out)} groups left out" if record.left_out else ""
        return Step("recover", acted=f"recovered with {len(entry.commits)} survivors{out}", gas=receipt.gas_used)

    def _recovered(
        self, round: RoundInputs, released: Mapping[int, bytes], gone: list[int], deadlines: Deadlines
    ) -> RecoveryRecord:
        """The recovery record. Where groups are summed apart, one of which something cannot be had is left out."""
        groups = [{round.graph.client(position) for position in group} for group in round.graph.groups]
        left_out = {number for number, group in enumerate(groups) if group.intersection(gone)}
        while True:
            try:
                return recovered(round, released, left_out)
            except TooFewShares as lack:
                spoilt = {number for number, group in enumerate(groups) if lack.client in group} - left_out
                final = lack.owner_lied or self._is_last_call(round, released, deadlines)
                if not (spoilt and final):
                    raise
                left_out |= spoilt

    def _gone(self, round: RoundInputs, released: Mapping[int, bytes]) -> list[int]:
        """Clients whose update neither its witnesses nor this node can have."""
        lost = unavailable_updates(round.graph, round.sharers, round.survivors, released)
        clients = [round.graph.client(position) for position in lost]
        sizes = {client: self._method.codec.expected_bytes(round, client) for client in clients}
        return unavailable(self._store, {client: round.entry.commits[client].digest for client in sizes}, sizes)

    def _is_last_call(self, round: RoundInputs, released: Mapping[int, bytes], deadlines: Deadlines) -> bool:
        """Whether nothing more can be waited for: what everybody released is at hand, or the deadline is near.

        A round that is recorded as failed in time, and why, is followed by rounds that the same member cannot spoil.
        """
        if self.view.block >= deadlines.recover_end - self.view.settings.recover_window // 4:
            return True
        return len(released) == len(round.entry.order)

    # --- close ------------------------------------------------------------------------------------------------------

    def _close(self, entry: RoundRecords, deadlines: Deadlines) -> Step:
        if self.view.block >= deadlines.close_end:
            return self._overdue(entry)
        round = self._inputs(entry)
        data = self._store.fetch(entry.recovered.digest, most_record_bytes(round.graph))
        try:
            record = recovery(round, data)
            model = self._outcome(round, record).model
        except InvalidRecovery as fault:
            # A member may record the recovery in the coordinator's place, and may record anything.
            return self._fail(entry, FailureReason.INVALID_RELEASE, {"reason": str(fault)})
        except (InvalidUpdate, InvalidModel) as fault:
            return self._fail(entry, FailureReason.INVALID_UPDATE, {"reason": str(fault)})
        privacy, stated = self._outcome(round, record).privacy, self._aides.statements(round, model)
        accuracy, loss, samples = self._aides.evaluate(self._method.schedule.standing(model, stated))
        seen = entry.recovered.at.block
        head = (seen, self._ledger.block_hash(seen))
        metrics = Metrics(entry.number, accuracy, loss, samples, privacy, stated, head)
        fault = self._method.statement_fault(model, metrics)
        if fault:
            return Step.wait("close", f"the coordinator that can state what it needs: {fault}", deadlines.close_end)
        model_digest = self._store.put(self._method.model_bytes(model)).digest
        receipt = self._ledger.close(entry.number, model_digest, self._store.put(metrics.to_bytes()).digest)
        reached = f" at accuracy {accuracy:.3f}" if samples else ""
        return Step("close", acted=f"closed the round{reached}", gas=receipt.gas_used)

    def _outcome(self, round: RoundInputs, record: RecoveryRecord) -> Outcome:
        """What the round came to. Kept from recovery to closing, unless the chain changed its mind about the inputs."""
        commits = (commit.digest for commit in round.entry.commits.values())
        inputs = (round.entry.opened.model_digest, record.to_bytes(), *commits)
        if self._aggregated is None or self._aggregated[0] != inputs:
            self._aggregated = (inputs, outcome(self._method, round, record))
        return self._aggregated[1]

    # --- failure ----------------------------------------------------------------------------------------------------

    def _fail(self, entry: RoundRecords, reason: FailureReason, evidence: dict) -> Step:
        data = json.dumps({"round": entry.number, **evidence}, sort_keys=True, separators=(",", ":")).encode()
        receipt = self._ledger.fail(entry.number, reason, self._store.put(data).digest)
        return Step("recover", acted=f"recorded the round as failed: {reason.name.lower()}", gas=receipt.gas_used)

    def _overdue(self, entry: RoundRecords) -> Step:
        if entry.sealed is None and len(entry.draws) < self.view.settings.quorum:
            receipt = self._ledger.skip(entry.number)
            return Step("seal", acted="skipped the round: too few drawn", gas=receipt.gas_used)
        receipt = self._ledger.fail(entry.number, FailureReason.DEADLINE, bytes(32))
        return Step("overdue", acted="recorded the round as failed: deadline", gas=receipt.gas_used)

    def _inputs(self, entry: RoundRecords) -> RoundInputs:
        ledger = (self._ledger.chain_id, self._ledger.address)
        return self._method.inputs(self.view.rounds, entry, ledger, self._store)
