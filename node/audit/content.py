"""Every digest on the ledger against what the store holds, and each closed model recomputed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedgrove.chain.records import (
    Closed,
    Committed,
    Failed,
    Judged,
    Phase,
    Record,
    Released,
    Replaced,
    Revealed,
    RoundOpened,
    Shared,
    Voided,
    Vouched,
)
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.ipfs.store import ContentReader, Malformed, NotFound, StoreError, TooLarge, Unreachable
from fedgrove.node.audit.findings import Findings, name_lacking, name_left_out, name_liars, name_misstating
from fedgrove.node.audit.verdict import CannotTell, Predecessor
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.graph import MaskGraph
from fedgrove.node.masking.recovery import RecoveryRecord, most_record_bytes
from fedgrove.node.masking.release import most_release_bytes, parse_release
from fedgrove.node.masking.sealing import MaskingRefused, parse_shares, shares_bytes
from fedgrove.node.masking.survivors import needed_secrets
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.protocol.aggregation import left_out_fault, outcome, recovery
from fedgrove.node.protocol.bad_record import RuleBroken, bad
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.content import MAX_JSON_BYTES, Metrics, Model
from fedgrove.node.protocol.ending import MetricsWatch
from fedgrove.node.protocol.founding import difference
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.policy import closing_fault, known_members, refusals
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
        Rounds that their members made void: nothing rests on them.
    replaced : frozenset of int
        Rounds whose members put another result in the place of their closing.

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
    replaced: frozenset[int] = frozenset()
    findings: Findings = field(init=False)
    spent: Spent | None = None
    stated: Metrics | None = None
    vouched: int = 0
    _method: Method | None = None
    _model: Model | None = None
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
        of_members = isinstance(record, Shared | Committed | Vouched | Revealed | Released)
        if of_members and self._groundless(record.round):
            return
        match record:
            case RoundOpened():
                self._opened(record)
            case Shared():
                self._shares(record)
            case Committed():
                self._update(record)
            case Vouched() | Revealed():
                self._proof(record)
            case Released():
                self._release(record)
            case Closed():
                self._closed(record)
            case Replaced():
                self._result(record)
            case Failed():
                self._failed(record)
            case Judged():
                self._judged(record)
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
        self._method, self._model = method, model
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
            # Where groups are summed apart, or updates have bounds, who is in no sum can spoil nothing: the closing
            # needs all the others.
            inputs = self._inputs()
            if record.round in self.closed and inputs.graph.is_whole and inputs.bounds is None:
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

    def _proof(self, record: Vouched | Revealed) -> None:
        """What a member proves may be missing or wrong: then it is not summed, or what it says does not count."""
        inputs = self._inputs_of(record.round)
        position, what = inputs.current.order.index(record.client), f"{record.FIELD}.content"
        is_voucher = isinstance(record, Vouched)
        most = inputs.bounded.voucher_bytes(position) if is_voucher else inputs.bounded.most_deposition_bytes(position)
        data = self.findings.absorbed(record.digest, most, what, record.round, record.client)
        if data is not None and is_voucher and len(data) != most:
            self.findings.remark(what, f"{len(data)} bytes instead of {most}", record.round, record.client)

    def _release(self, record: Released) -> None:
        inputs = self._inputs_of(record.round)
        current, graph = inputs.current, inputs.graph
        holder = current.order.index(record.client)
        most = most_release_bytes(graph, holder)
        data = self.findings.absorbed(record.digest, most, "release.content", record.round, record.client)
        if data is None:
            return
        survivors = self._survivors(inputs)
        if survivors is None or record.stage:
            return  # whom a later stage expels follows from what is opened; its closing is checked
        try:
            parse_release(data, graph, holder, inputs.sharers, survivors)
        except InvalidContent as fault:
            self.findings.remark("release.content", str(fault), record.round, record.client)

    def _closed(self, record: Closed) -> None:
        if record.round in self.closed and record.round not in self.replaced:
            self._result(record)
            return
        try:
            self._result(record)
        except RuleBroken as failure:
            # Its members said so on the ledger, and nothing rests on it.
            self.findings.remarks.append(failure.record)
        else:
            self.findings.remark("voided", "its members voided or replaced a correct closing", record.round)

    def _result(self, record: Closed | Replaced) -> None:
        # (7) the model is the sum, by the recovery record that the metrics name
        number, inputs = record.round, self._inputs_of(record.round)
        data = self.findings.fetch(record.metrics_digest, MAX_JSON_BYTES, "closed.metrics", number)
        try:
            stated = Metrics.from_bytes(data)
        except InvalidContent as fault:
            raise bad("closed.metrics", str(fault), number) from None
        recovered = self._recovery(inputs, stated)
        left_out = self.findings.get(lambda: left_out_fault(inputs, recovered, record), "recovery.left out", number)
        if left_out:
            raise bad("recovery.left out", left_out, number)
        self.findings.fetch(record.model_digest, self._terms.config.max_blob_bytes, "closed.model", number)
        try:
            right = self.findings.get(lambda: outcome(self._terms, inputs, recovered), "closed.model", number)
        except InvalidUpdate as fault:
            raise bad("closed.model", f"closed over an update that cannot be summed: {fault}", number) from None
        # (8) members who refuse what honest ones refuse would not have let it come to this
        for refusal in refusals(self.rounds, inputs.current, self._terms.config):
            raise bad("closed.policy", refusal, number)
        # (9) within everybody's budget
        checked = (self._terms, inputs, right, record, stated, self.facts.block_hash)
        wrong = self.findings.get(lambda: closing_fault(*checked), "closed.privacy", number)
        if wrong is not None:
            raise bad(f"closed.{wrong.part}", wrong.reason, number)
        self.stated, self.vouched = stated, stated.head[0]
        self.spent = self._spending().summary(number)

    def _recovery(self, inputs: RoundInputs, stated: Metrics) -> RecoveryRecord:
        """The recovery record that a closing's metrics name; who lied about a share, or is left out, is remarked on."""
        number, digest = inputs.current.number, bytes.fromhex(stated.recovery)
        most = most_record_bytes(inputs.graph, expels=inputs.bounds is not None)
        data = self.findings.fetch(digest, most, "recovery.content", number)
        try:
            record = self.findings.get(lambda: recovery(inputs, data), "voucher.content", number)
        except InvalidContent as fault:
            raise bad("recovery.content", str(fault), number) from None
        name_liars(inputs, self.findings)
        name_misstating(inputs, record, self.findings)
        for group in record.left_out:
            name_left_out(inputs, group, self.findings)
        return record

    def _failed(self, record: Failed) -> None:
        """No reason is recorded: who spoilt a round is named where the shares say so."""
        current = self.rounds.last
        if current.sealed is None or self._groundless(record.round) or self._refused():
            return
        name_lacking(self._inputs(), self.findings)

    def _refused(self) -> bool:
        """Whether the lists of the round being checked forbid a sum."""
        inputs = self._inputs()
        survivors = self._survivors(inputs)
        if survivors is None:
            return True
        try:
            needed_secrets(inputs.graph, inputs.sharers, survivors)
        except MaskingRefused:
            return True
        return False

    def _survivors(self, inputs: RoundInputs) -> tuple[int, ...] | None:
        """Positions of those who may be summed; None where nobody can tell, as something of the round is missing.

        A round that closed with that is a bad record, one that failed is not.
        """
        try:
            return inputs.survivors
        except Unreachable as fault:
            raise CannotTell(str(fault)) from None
        except StoreError:
            return None

    def _judged(self, record: Judged) -> None:
        """What members judge changes nothing before most say so; who judges a correct closing wrong is remarked on."""
        current = self.rounds.rounds[record.round]
        if record.asked is not Phase.CLOSED or record.round not in self.closed or record.round in self.replaced:
            return
        stands = current.result
        if (record.model_digest, record.metrics_digest) != (stands.model_digest, stands.metrics_digest):
            self.findings.remark("judgement", "the client judges a correct closing wrong", record.round, record.client)

    @property
    def before(self) -> Predecessor | None:
        """What the federation continues from, by its terms."""
        start = self._method.config.start if self._method is not None else None
        return Predecessor(start.continues, start.model) if start is not None and start.continues is not None else None

    @property
    def practice(self) -> bool:
        """Whether the terms say that nobody relies on the federation."""
        return self._method is not None and self._method.config.federation.practice

    def known_members(self, current: RoundRecords) -> set[str]:
        """Accounts of the members that others counted on to be in a round."""
        return known_members(self.rounds, current, self._terms.config)

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
            self._round_inputs = self._read_inputs(self.rounds.last, self._model)
        return self._round_inputs

    def _inputs_of(self, number: int) -> RoundInputs:
        """The same of another round: shares are released, and rounds judged, while the next one runs."""
        latest = self.rounds.last
        return self._inputs() if number == latest.number else self._read_inputs(self.rounds.rounds[number], None)

    def _read_inputs(self, current: RoundRecords, model: Model | None) -> RoundInputs:
        work = (self.rounds, current, self.facts.place, self.store, model)
        try:
            return self.findings.get(lambda: self._terms.inputs(*work), "opened.model", current.number)
        except InvalidContent as fault:
            raise bad("opened.model", str(fault), current.number) from None


def closed_rounds(records: Sequence[Record]) -> frozenset[int]:
    """Numbers of the rounds that closed and were not voided."""
    return frozenset(record.round for record in records if isinstance(record, Closed)) - void_rounds(records)


def void_rounds(records: Sequence[Record]) -> frozenset[int]:
    """Numbers of the rounds that are void, by their members' judgement of them or of the round before."""
    return frozenset(record.round for record in records if isinstance(record, Voided))


def replaced_rounds(records: Sequence[Record]) -> frozenset[int]:
    """Numbers of the rounds whose members put another result in the place of their closing."""
    return frozenset(record.round for record in records if isinstance(record, Replaced))
