"""The ledger's rules, re-checked record by record, by whoever acts on the ledger and by whoever audits it.

Nobody has to trust that the contracts on the chain are the published ones, or that an endpoint tells the truth: every
author, proof, window, membership and order is recomputed from the records alone (spec 01); what concerns members is in
``membership_rules``. That a record is its author's is checked where it is read (``chain.network.blocks``).
"""

from dataclasses import dataclass, field

from fedgrove.chain.crypto import tree
from fedgrove.chain.records import (
    AbsenceRecorded,
    Approved,
    Closed,
    CommitEnded,
    Committed,
    Disputed,
    DrawEnded,
    Drawn,
    DrawRejected,
    Failed,
    FailureReason,
    LedgerFounded,
    MailboxKeyRotated,
    Phase,
    Record,
    Recovered,
    Registered,
    RegistryFounded,
    Released,
    Revoked,
    RoundOpened,
    SealChunk,
    Sealed,
    SeedFixed,
    Shared,
    ShareEnded,
    Skipped,
    Voided,
    VrfKeyRotated,
    Withdrawn,
)
from fedgrove.chain.records.phases import Deadlines
from fedgrove.node.protocol.bad_record import bad
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.clock import phase_of
from fedgrove.node.protocol.membership_rules import MembershipRules
from fedgrove.node.protocol.rounds import RoundRecords, Rounds

PhaseEnd = DrawEnded | ShareEnded | CommitEnded
"""The records that everybody has acted."""

WithinRound = (
    SeedFixed
    | Drawn
    | DrawRejected
    | Sealed
    | SealChunk
    | Shared
    | Committed
    | PhaseEnd
    | Released
    | Recovered
    | Closed
    | Skipped
    | Failed
)
"""What is recorded while a round is open."""


_FOUNDING = (RegistryFounded, LedgerFounded)
_JOINING = (Registered, VrfKeyRotated, MailboxKeyRotated, Approved, Revoked, Withdrawn)


@dataclass
class LedgerRules:
    """Checks each record against all records before it. Call ``check`` before the record is added to ``rounds``."""

    facts: ChainFacts
    rounds: Rounds
    membership: MembershipRules = field(init=False)
    _founded: int = 0
    _model: bytes = b""
    _standing: int = 0
    _to_be_voided: list[tuple[int, int]] = field(default_factory=list)
    _to_be_ended: tuple[type[PhaseEnd], bytes] | None = None

    def __post_init__(self) -> None:
        self.membership = MembershipRules(self.facts, self.rounds)
        self._model = bytes.fromhex(self.facts.deployment.terms.model)

    def check(self, record: Record) -> None:
        """Raise RuleBroken if the record breaks a rule."""
        self._check_founding(record)
        if self._to_be_voided and not isinstance(record, Voided):
            raise bad(
                "disputes", "most of its members disputed the round, but it was not voided", self._to_be_voided[0][0]
            )
        self.membership.check_report(record)
        if self._to_be_ended is not None and not isinstance(record, self._to_be_ended[0]):
            number = self.rounds.last.number
            raise bad("phase end", "everybody had acted, but the end of the phase was not recorded", number)
        match record:
            case RegistryFounded() | LedgerFounded():
                pass  # checked above
            case Registered() | VrfKeyRotated() | MailboxKeyRotated() | Withdrawn():
                self.membership.check(record)
            case Approved() | Revoked() | AbsenceRecorded():
                self.membership.check(record)
            case RoundOpened():
                self._opened(record)
            case Disputed():
                self._disputed(record)
            case Voided():
                self._voided(record)
            case SeedFixed() | Drawn() | DrawRejected() | Sealed() | SealChunk() | Shared() | Committed() | Released():
                self._within_round(record)
            case DrawEnded() | ShareEnded() | CommitEnded() | Recovered() | Closed() | Skipped() | Failed():
                self._within_round(record)

    def _check_founding(self, record: Record) -> None:
        """The registry comes first, then the ledger; whoever is quick may join between the two."""
        if isinstance(record, _FOUNDING):
            if self._founded == len(_FOUNDING) or type(record) is not _FOUNDING[self._founded]:
                raise bad("founding", "the registry and the ledger were not founded once each, in this order")
            self._founded += 1
        elif self._founded < (1 if isinstance(record, _JOINING) else len(_FOUNDING)):
            raise bad("founding", "the records do not begin with the founding of the registry and the ledger")

    def _opened(self, record: RoundOpened) -> None:
        latest, number, terms = self.rounds.latest, record.round, self.facts.deployment.terms
        if number != (latest.number + 1 if latest else 1):
            raise bad("opened", "the round's number does not follow the one before", number)
        if latest is None:
            if record.at.author != self.facts.deployment.coordinator:
                raise bad("opened.author", "only the coordinator may open the first round", number)
        else:
            if latest.end is None:
                raise bad("opened", f"round {latest.number} had not ended", number)
            self.membership.check_coordinator(record, "opened", (latest.voided or latest.end).at.block)
        closed = self.rounds.closed
        if closed >= terms.rounds or number > terms.rounds + terms.repeats:
            raise bad("opened", f"{closed} of {terms.rounds} rounds had closed, of {number - 1} opened", number)
        if record.model_digest != self._model:
            raise bad("opened.model", "it is not the model in force after the previous round", number)
        if record.config_digest.hex() != terms.config:
            raise bad("opened.config", "it is not the configuration that the ledger was deployed with", number)
        if record.opened_at != record.at.block:
            raise bad("opened.block", f"{record.opened_at} is not the block of the record", number)
        if record.seed_block != record.opened_at + self.facts.settings.seed_delay:
            raise bad("opened.seed block", "it is not the seed delay after the opening", number)
        if record.sampling_rate != terms.rate_of(number):
            raise bad("opened.sampling rate", "it is not the rate of the federation's terms", number)
        barred = len(self.membership.barred_from(number, record.opened_at))
        if record.barred > barred:
            raise bad("opened.barred", f"{record.barred} were named, but {barred} may not draw", number)

    def _within_round(self, record: WithinRound) -> None:
        number = record.round
        current = self.rounds.latest
        if current is None or current.number != number:
            raise bad(_name(record), "the round was not open", number)
        if current.end is not None:
            raise bad(_name(record), "the round had ended", number)
        deadlines = current.deadlines(self.facts.settings)
        match record:
            case SeedFixed():
                self._seed(record, current, deadlines)
            case Drawn():
                self._drawn(record, current, deadlines)
            case Sealed():
                self._sealed(record, current, deadlines)
            case Shared() | Committed() | Released():
                self._member_record(record, current, deadlines)
            case DrawEnded() | ShareEnded() | CommitEnded():
                self._phase_ended(record)
            case Recovered():
                self._recovered(record, current, deadlines)
            case Closed() | Skipped() | Failed():
                self._ended(record, current, deadlines)

    def _seed(self, record: SeedFixed, current: RoundRecords, deadlines: Deadlines) -> None:
        if current.seed is not None or record.at.block <= deadlines.seed_block:
            raise bad("seed", "fixed twice, or before its block", record.round)
        if record.block_hash != self.facts.block_hash(deadlines.seed_block):
            raise bad("seed.block hash", f"it is not the hash of block {deadlines.seed_block}", record.round)
        sealed = [past.sealed for past in self.rounds.rounds.values() if past.sealed is not None]
        previous_root = sealed[-1].order_root if sealed else bytes(32)
        if record.seed != tree.seed(record.block_hash, previous_root):
            raise bad("seed", "it does not follow from its block and the previous order", record.round)

    def _drawn(self, record: Drawn, current: RoundRecords, deadlines: Deadlines) -> None:
        number, client = record.round, record.client
        member = self.membership.check_author(record, "draw")
        if client in current.draws or len(current.draws) >= self.facts.settings.max_clients:
            raise bad("draw", "the client drew twice, or the round was full", number, client)
        if current.seed is None:
            raise bad("draw", "the seed was not fixed", number, client)
        if phase_of(current, deadlines, record.at.block) is not Phase.DRAW:
            raise bad("draw.block", f"block {record.at.block} is outside the draw window", number, client)
        bar = self.membership.why_barred(member, number, current.opened.opened_at)
        if bar:
            raise bad("draw.client", bar, number, client)
        if not 0 < record.samples <= self.facts.settings.max_samples:
            raise bad("draw.samples", f"{record.samples} samples", number, client)
        alpha = tree.draw_alpha(*self.facts.place, number, current.seed.seed)
        beta = self.membership.check_proof(record, alpha, "draw.proof", number)
        if not tree.is_drawn(beta, current.opened.sampling_rate):
            raise bad("draw.proof", "the client's output is above the sampling threshold", number, client)
        if len(current.draws) + 1 == current.awaited(self.facts.settings.max_clients):
            self._to_be_ended = (DrawEnded, record.at.transaction)

    def _sealed(self, record: Sealed, current: RoundRecords, deadlines: Deadlines) -> None:
        in_time = phase_of(current, deadlines, record.at.block) is Phase.SEAL
        if not in_time or record.at.block <= deadlines.order_block:
            raise bad("order", "sealed twice or outside its window", record.round)
        if record.drawn != len(current.draws) or record.drawn < self.facts.settings.quorum:
            raise bad("order.count", f"{record.drawn} sealed, {len(current.draws)} drew", record.round)
        source = self.facts.randomness if self.facts.settings.randao else self.facts.block_hash
        if record.order_seed != tree.order_seed(*self.facts.place, record.round, source(deadlines.order_block)):
            raise bad("order.seed", f"it does not follow from block {deadlines.order_block}", record.round)
        if record.order_root != tree.order_root(tree.order(current.tickets, record.order_seed)):
            raise bad("order.root", "it is not the root over the tickets in their order", record.round)

    def _member_record(
        self, record: Shared | Committed | Released, current: RoundRecords, deadlines: Deadlines
    ) -> None:
        self.membership.check_author(record, _name(record))
        match record:
            case Shared():
                phase, allowed, present = Phase.SHARE, current.draws, current.shares
            case Committed():
                phase, allowed, present = Phase.COMMIT, current.shares, current.commits
            case Released():
                phase, allowed, present = Phase.RECOVER, current.draws, current.releases
        if record.client not in allowed:
            raise bad(_name(record), "the client took no part in the previous phase", record.round, record.client)
        if record.client in present:
            raise bad(_name(record), "recorded twice", record.round, record.client)
        if phase_of(current, deadlines, record.at.block) is not phase:
            raise bad(
                f"{_name(record)}.block", f"block {record.at.block} is outside its window", record.round, record.client
            )
        ending = {Shared: ShareEnded, Committed: CommitEnded}.get(type(record))
        if ending is not None and len(present) + 1 == len(allowed):
            self._to_be_ended = (ending, record.at.transaction)

    def _phase_ended(self, record: PhaseEnd) -> None:
        """It follows in the transaction of the last who acted, and nowhere else."""
        if self._to_be_ended != (type(record), record.at.transaction):
            raise bad("phase end", "not everybody had acted in the phase, or it had ended before", record.round)
        self._to_be_ended = None

    def _recovered(self, record: Recovered, current: RoundRecords, deadlines: Deadlines) -> None:
        if phase_of(current, deadlines, record.at.block) is not Phase.RECOVER:
            raise bad("recovery", "recorded twice, outside its window, or before the order was sealed", record.round)
        self.membership.check_coordinator(record, "recovery", deadlines.commit_end)
        if record.survivors != len(current.commits):
            raise bad("recovery.survivors", f"{record.survivors}, but {len(current.commits)} committed", record.round)

    def _ended(self, record: Closed | Skipped | Failed, current: RoundRecords, deadlines: Deadlines) -> None:
        block, number = record.at.block, record.round
        phase = phase_of(current, deadlines, block)
        match record:
            case Closed():
                if phase is not Phase.CLOSE or not any(record.model_digest):
                    raise bad("closed", "not recovered, after its deadline, or without a model", number)
                self.membership.check_coordinator(record, "closed", current.recovery.at.block)
                self._model, self._standing = record.model_digest, number
            case Skipped():
                if len(current.draws) >= self.facts.settings.quorum or block <= deadlines.draw_end:
                    raise bad("skipped", f"{len(current.draws)} clients had drawn", number)
                if record.drawn != len(current.draws):
                    raise bad("skipped.count", f"{record.drawn} recorded, {len(current.draws)} drew", number)
            case Failed():
                overdue = phase is Phase.OVERDUE
                if overdue != (record.reason == FailureReason.DEADLINE):
                    raise bad("failed", "its reason and the passed deadlines contradict each other", number)
                if not overdue:
                    self._failed_early(record, current, deadlines, phase)

    def _failed_early(self, record: Failed, current: RoundRecords, deadlines: Deadlines, phase: Phase) -> None:
        if phase not in (Phase.RECOVER, Phase.CLOSE) or record.reason == FailureReason.NONE:
            raise bad("failed", "recorded before the commit phase was over, or without a reason", record.round)
        since = current.recovered.at.block if current.recovered is not None else deadlines.commit_end
        self.membership.check_coordinator(record, "failed", since)

    def _disputed(self, record: Disputed) -> None:
        number, client = record.round, record.client
        self.membership.check_author(record, "dispute")
        if number == 0 or number != self._standing:
            raise bad("dispute", "it is not the latest closed round, or is already void", number, client)
        current = self.rounds.rounds[number]
        if client not in current.commits or client in current.disputes:
            raise bad("dispute", "the client took no part in the round, or had already disputed it", number, client)
        disputes = len(current.disputes) + 1
        if 2 * disputes > len(current.commits):
            self._to_be_voided = [(number, disputes)]
            latest = self.rounds.last
            if latest.end is None:
                self._to_be_voided.append((latest.number, 0))

    def _voided(self, record: Voided) -> None:
        number = record.round
        if not self._to_be_voided or (number, record.disputes) != self._to_be_voided.pop(0):
            raise bad("voided", "no majority of its members had disputed the round", number)
        if number == self._standing:
            self._standing, self._model = 0, self.rounds.rounds[number].opened.model_digest
        if record.model_digest != self._model:
            raise bad("voided.model", "it is not the model that the disputed round trained from", number)


def _name(record: Record) -> str:
    names = {Shared: "share", Committed: "commit", Released: "release", Drawn: "draw", SeedFixed: "seed"}
    return names.get(type(record), type(record).__name__.lower())
