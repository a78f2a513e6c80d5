"""Every digest on the ledger against what the store holds, and each closed model recomputed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedgrove.chain.records import (
    Closed,
    Committed,
    Disputed,
    Failed,
    FailureReason,
    Record,
    Recovered,
    Released,
    RoundOpened,
    Shared,
    Voided,
)
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.ipfs.store import ContentReader, Malformed, NotFound, StoreError, TooLarge, Unreachable
from fedgrove.node.audit.findings import Findings, is_unfounded, name_lacking, name_left_out, name_liars
from fedgrove.node.audit.verdict import CannotTell
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.graph import MaskGraph
from fedgrove.node.masking.recovery import RecoveryRecord, most_record_bytes
from fedgrove.node.masking.release import most_release_bytes, parse_release
from fedgrove.node.masking.sealing import MaskingRefused, parse_shares, shares_bytes
from fedgrove.node.masking.survivors import needed_secrets
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.protocol.aggregation import outcome, recovery
from fedgrove.node.protocol.bad_record import RuleBroken, bad
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.content import MAX_JSON_BYTES, Metrics, Model
from fedgrove.node.protocol.ending import MetricsWatch
from fedgrove.node.protocol.founding import difference
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.policy import closing_fault
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.spending import Spending, Spent


@dataclass
class ContentRules:
    """Checks the blob behind each record. Call ``check`` before the record is added to ``rounds``.

    Parameters
    ----------
    closed : frozenset of int
        Rounds that end closed and stand: there a committed update must be at hand.
    void : frozenset of int
        Rounds that their members' disputes made void: nothing rests on them.

    Attributes
    ----------
    findings : Findings
        What members did wrong without spoiling a model.
    spent : Spent or None
        Of the privacy budget, up to the last closed round.
    stated : Metrics or None
        Of the last closed round.
    vouched : int
        The last block that a closing names: up to it the history is signed by who closed; 0 for none.
    """

    facts: ChainFacts
    store: ContentReader
    rounds: Rounds
    closed: frozenset[int]
    void: frozenset[int] = frozenset()
    findings: Findings = field(init=False)
    spent: Spent | None = None
    stated: Metrics | None = None
    vouched: int = 0
    _method: Method | None = None
    _model: Model | None = None
    _recovery: RecoveryRecord | None = None
    _round_inputs: RoundInputs | None = None

    def __post_init__(self) -> None:
        self.findings = Findings(self.store)

    def check(self, record: Record) -> None:
        """Raise RuleBroken if the content behind the record is missing, altered or not what it must be.

        Nothing that others published ends an audit in another way: an error that nobody expected is a bad record, too.
        """
        try:
            self._check(record)
        except (RuleBroken, CannotTell):
            raise
        except (OSError, MemoryError) as fault:
            raise CannotTell(f"this machine failed to check it: {type(fault).__name__}") from None
        except Exception as fault:
            self._unexpected(record, fault)

    def _unexpected(self, record: Record, fault: Exception) -> None:
        """Name the record whose content could not be checked; in a round that fell it is a remark."""
        number, client = getattr(record, "round", None), getattr(record, "client", None)
        failure = bad(f"{record.FIELD}.content", f"checking it fails with {type(fault).__name__}", number, client)
        if number is None or not (self._fell(number) or (isinstance(record, Closed) and number not in self.closed)):
            raise failure from fault
        self.findings.remarks.append(failure.record)

    def _check(self, record: Record) -> None:
        if isinstance(record, Shared | Committed | Released | Recovered) and self._groundless(record.round):
            return
        match record:
            case RoundOpened():
                self._opened(record)
            case Shared():
                self._shares(record)
            case Committed():
                self._update(record)
            case Released():
                self._release(record)
            case Recovered():
                self._recovered(record)
            case Closed():
                self._closed(record)
            case Failed():
                self._failed(record)
            case Disputed():
                self._disputed(record)
            case Voided():
                pass  # the model that it names is one that an opening names
            case _:
                if record.BLOBS:
                    raise bad(record.FIELD, "no rule says what its content must be")

    def _opened(self, record: RoundOpened) -> None:
        self._round_inputs = None
        if not self._fell(record.round):
            self._opening(record)
            return
        try:
            self._opening(record)
        except RuleBroken as failure:
            # It was opened on a lie before its members could say so, and fell with it.
            self.findings.remarks.append(failure.record)

    def _fell(self, number: int) -> bool:
        """Whether a round is void, or its base is: it may have ended before most of that one's members had spoken."""
        base = self.rounds.base_of(number)
        return number in self.void or (base is not None and base.number in self.void)

    def _groundless(self, number: int) -> bool:
        """Whether a round that fell began with what nobody can read: nothing in it can be checked. A remark says so."""
        if not self._fell(number):
            return False
        try:
            self._inputs()
        except RuleBroken as failure:
            if failure.record not in self.findings.remarks:
                self.findings.remarks.append(failure.record)
            return True
        return False

    def _opening(self, record: RoundOpened) -> None:
        number = record.round
        try:
            method = self.findings.get(lambda: fetch_method(self.store, record.config_digest), "opened.config", number)
        except (InvalidInput, InvalidContent) as fault:
            raise bad("opened.config", str(fault), number) from None
        config = method.config
        other = difference(self.facts.deployment, config)
        if other:
            raise bad("opened.config", f"the deployed federation differs: {other}", number)
        layout = method.layout_of(self._model) if self._model is not None else None
        try:
            model = self.findings.get(
                lambda: method.fetch_model(self.store, record.model_digest, layout), "opened.model", number
            )
        except InvalidContent as fault:
            raise bad("opened.model", str(fault), number) from None
        try:
            method.codec.check_model(model, number)
        except (InvalidInput, InvalidContent) as fault:
            raise bad("opened.config", str(fault), number) from None
        if config.shared.digest:
            digest = bytes.fromhex(config.shared.digest)
            self.findings.get(lambda: self.store.fetch(digest, config.max_blob_bytes), "opened.shared set", number)
        self._method, self._model, self._recovery = method, model, None
        self._after_the_end(record, MetricsWatch(self.store, config))

    def _after_the_end(self, record: RoundOpened, watch: MetricsWatch) -> None:
        """Remark that a round was opened that the terms' patience rules out: it spoils nothing unless it closes."""
        ended = self.findings.get(lambda: watch.ending(self.rounds), "closed.metrics", record.round)
        if ended and not self._fell(record.round):
            reason = f"the training had ended before it, as {ended}; opened by {record.at.author}"
            self.findings.remark("opened", reason, record.round)

    def _shares(self, record: Shared) -> None:
        current, graph = self._sealed()
        owner = current.order.index(record.client)
        size = shares_bytes(graph, owner)
        data = self.findings.absorbed(record.digest, size, "share.content", record.round, record.client)
        if data is None:
            return
        try:
            parse_shares(data, graph, owner)
        except InvalidContent as fault:
            self.findings.remark("share.content", str(fault), record.round, record.client)

    def _update(self, record: Committed) -> None:
        expected = self._terms.codec.expected_bytes(self._inputs(), record.client)
        try:
            size = sum(map(len, self.store.stream(record.digest, expected)))
        except NotFound:
            # Where groups are summed apart, who is in no sum can spoil nothing: the closing needs all the others.
            if record.round in self.closed and not self._inputs().graph.groups:
                raise bad("commit.content", "it is not in the store", record.round, record.client) from None
            self.findings.remark("commit.content", "the update was never published", record.round, record.client)
            return
        except Unreachable as fault:
            raise CannotTell(str(fault)) from None
        except (TooLarge, Malformed) as lie:
            # A member's lie; the round cannot have closed over it. Whether it did is checked at its closing.
            self.findings.remark("commit.content", str(lie), record.round, record.client)
            return
        except StoreError as fault:
            raise bad("commit.content", str(fault), record.round, record.client) from None
        if size != expected:
            self.findings.remark("commit.content", f"{size} bytes instead of {expected}", record.round, record.client)

    def _release(self, record: Released) -> None:
        current, graph = self._sealed()
        holder = current.order.index(record.client)
        most = most_release_bytes(graph, holder)
        data = self.findings.absorbed(record.digest, most, "release.content", record.round, record.client)
        if data is None:
            return
        shared, committed = current.positions(current.shares), current.positions(current.commits)
        try:
            parse_release(data, graph, holder, shared, committed)
        except InvalidContent as fault:
            self.findings.remark("release.content", str(fault), record.round, record.client)

    def _recovered(self, record: Recovered) -> None:
        number = record.round
        closed = number in self.closed
        # Any member may record a recovery once the coordinator's grace is over; without a model it spoils nothing.
        fetch = self.findings.fetch if closed else self.findings.absorbed
        data = fetch(record.digest, most_record_bytes(self._inputs().graph), "recovery.content", number)
        if data is None:
            return
        try:
            self._recovery = recovery(self._inputs(), data)
        except InvalidContent as fault:
            if closed:
                raise bad("recovery.content", str(fault), number) from None
            self.findings.remark("recovery.content", f"{fault}; recorded by {record.at.author}", number)
            return
        name_liars(self._inputs(), self.findings)
        for group in self._recovery.left_out:
            name_left_out(self._inputs(), group, self.findings)

    def _closed(self, record: Closed) -> None:
        if record.round in self.closed:
            self._closing(record)
            return
        try:
            self._closing(record)
        except RuleBroken as failure:
            # Its members said so on the ledger, and nothing rests on it.
            self.findings.remarks.append(failure.record)
        else:
            self.findings.remark("voided", "its members voided a correct round", record.round)

    def _closing(self, record: Closed) -> None:
        # (7) the model is the sum
        number, recovered = record.round, self._recovery
        if recovered is None:
            raise bad("closed.model", "it has no valid recovery record", number)
        self.findings.fetch(record.model_digest, self._terms.config.max_blob_bytes, "closed.model", number)
        try:
            right = self.findings.get(lambda: outcome(self._terms, self._inputs(), recovered), "closed.model", number)
        except InvalidUpdate as fault:
            raise bad("closed.model", f"closed over an update that cannot be summed: {fault}", number) from None

        def metrics() -> bytes:
            return self.findings.fetch(record.metrics_digest, MAX_JSON_BYTES, "closed.metrics", number)

        # (8) within everybody's budget
        checked = (self._terms, self._inputs(), right, record, metrics)
        known = (self.facts.block_hash, self.facts.deployment.block)
        wrong = self.findings.get(lambda: closing_fault(*checked, *known), "closed.privacy", number)
        if wrong is not None:
            raise bad(f"closed.{wrong.part}", wrong.reason, number)
        self.stated = Metrics.from_bytes(metrics())
        self.vouched = self.stated.head[0] if self.stated.head else self.vouched
        self.spent = self._spending().summary(number)

    def _failed(self, record: Failed) -> None:
        if record.reason == FailureReason.DEADLINE:
            return
        self.findings.absorbed(record.evidence, MAX_JSON_BYTES, "failed.evidence", record.round)
        if self._groundless(record.round):
            return
        if record.reason == FailureReason.TOO_FEW_SURVIVORS:
            self._too_few_survivors(record)
        elif is_unfounded(record.reason, self._terms, self._inputs(), self._recovery):
            # No model came of it; but who records that when a vote goes against it, say, keeps the vote from counting.
            reason = f"the reason is not {record.reason.name.lower()}; recorded by {record.at.author}"
            self.findings.remark("failed.reason", reason, record.round)
        elif record.reason == FailureReason.TOO_FEW_SHARES:
            name_lacking(self._inputs(), self._recovery, self.findings)

    def _too_few_survivors(self, record: Failed) -> None:
        current, graph = self._sealed()
        try:
            needed_secrets(graph, current.positions(current.shares), current.positions(current.commits))
        except MaskingRefused:
            return
        if self.findings.get(lambda: self._spending().overspent(self.rounds.last), "failed.reason", record.round):
            return
        raise bad("failed.reason", f"{len(current.commits)} clients had committed, which is enough", record.round)

    def _disputed(self, record: Disputed) -> None:
        self.findings.absorbed(record.evidence, MAX_JSON_BYTES, "dispute.evidence", record.round, record.client)
        if record.round in self.closed:
            self.findings.remark("dispute", "the client disputes a correct round", record.round, record.client)

    def exhausted(self) -> str:
        """Why no further round can be held within the privacy budget, in one clause; empty when one can."""
        latest = self.rounds.latest
        return self._spending().exhausted(latest.number + 1) if latest is not None and self._method else ""

    def ending(self) -> str:
        """Why the terms' patience lets no further round follow, in one clause; empty where it does."""
        return MetricsWatch(self.store, self._method.config).ending(self.rounds) if self._method else ""

    @property
    def _terms(self) -> Method:
        """The method of the round's terms: what follows its opening is checked only where they could be read."""
        if self._method is None:
            raise AttributeError("the terms of a round have not been read yet")
        return self._method

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _sealed(self) -> tuple[RoundRecords, MaskGraph]:
        inputs = self._inputs()
        return inputs.current, inputs.graph

    def _spending(self) -> Spending:
        return Spending(self._terms, self.store, self.rounds, self._terms.parameters_of(self._model))

    def _inputs(self) -> RoundInputs:
        """The public inputs of the round being checked; RuleBroken where it rests on what cannot be read."""
        if self._round_inputs is None:
            ledger, latest = self.facts.place, self.rounds.last
            work = (self.rounds, latest, ledger, self.store, self._model)
            try:
                self._round_inputs = self.findings.get(lambda: self._terms.inputs(*work), "opened.model", latest.number)
            except InvalidContent as fault:
                raise bad("opened.model", str(fault), latest.number) from None
        return self._round_inputs


def closed_rounds(records: Sequence[Record]) -> frozenset[int]:
    """Numbers of the rounds that closed and were not voided."""
    return frozenset(record.round for record in records if isinstance(record, Closed)) - void_rounds(records)


def void_rounds(records: Sequence[Record]) -> frozenset[int]:
    """Numbers of the rounds that disputes made void."""
    return frozenset(record.round for record in records if isinstance(record, Voided))
