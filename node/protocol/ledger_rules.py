"""The ledger's rules, re-checked record by record, by whoever acts on the ledger and by whoever audits it.

Nobody has to trust that the contracts on the chain are the published ones, or that an endpoint tells the truth: every
author, proof, window, membership and order is recomputed here from the records alone (spec 01). That a record is its
author's is checked where it is read (``chain.blocks``).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

from fedgrove.chain import tree, vrf
from fedgrove.chain.deployment import Deployment, Settings
from fedgrove.chain.phases import Deadlines
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
from fedgrove.node.protocol.rounds import Member, RoundRecords, Rounds

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


@dataclass(frozen=True)
class BadRecord:
    """First fault of a history: round and client (None if it has none), the field, and the reason in a sentence."""

    round: int | None
    client: int | None
    field: str
    reason: str

    def __str__(self) -> str:
        place = [f"round {self.round}"] if self.round is not None else []
        place += [f"client {self.client}"] if self.client is not None else []
        return f"{', '.join([*place, self.field])}: {self.reason}"


class RuleBroken(Exception):
    """Raised at the first record that breaks a rule."""

    def __init__(self, record: BadRecord) -> None:
        super().__init__(str(record))
        self.record = record


_FOUNDING = (RegistryFounded, LedgerFounded)
_JOINING = (Registered, VrfKeyRotated, MailboxKeyRotated, Approved, Revoked, Withdrawn)
_MOST_ABSENCES = 0xFFFF  # at which the registry's count stays


def bad(field: str, reason: str, number: int | None = None, client: int | None = None) -> RuleBroken:
    """The exception that names a bad record."""
    return RuleBroken(BadRecord(number, client, field, reason))


@dataclass(frozen=True)
class ChainFacts:
    """Origin of the records, and the terms fixed at deployment.

    ``head_block`` is the last block looked at; ``block_hash`` and ``randomness`` map the number of a block up to it to
    its hash and to the RANDAO mix in its header, 32 bytes each.
    """

    deployment: Deployment
    head_block: int
    block_hash: Callable[[int], bytes]
    randomness: Callable[[int], bytes]

    @property
    def settings(self) -> Settings:
        return self.deployment.settings

    @property
    def place(self) -> tuple[int, str]:
        """Chain id and address of the ledger."""
        return self.deployment.chain_id, self.deployment.ledger


@dataclass
class LedgerRules:
    """Checks each record against all records before it. Call ``check`` before the record is added to ``rounds``."""

    facts: ChainFacts
    rounds: Rounds
    _founded: int = 0
    _vrf_keys: set[tuple[int, int]] = field(default_factory=set)
    _approved: dict[str, int] = field(default_factory=dict)
    _revoked: dict[str, tuple[int, int]] = field(default_factory=dict)
    _absences: dict[int, int] = field(default_factory=dict)
    _skipped_until: dict[int, int] = field(default_factory=dict)
    _model: bytes = b""
    _standing: int = 0
    _to_be_voided: list[tuple[int, int]] = field(default_factory=list)
    _to_be_absent: list[int] = field(default_factory=list)
    _to_be_ended: tuple[type[PhaseEnd], bytes] | None = None

    def __post_init__(self) -> None:
        self._model = bytes.fromhex(self.facts.deployment.terms.model)

    def check(self, record: Record) -> None:
        """Raise RuleBroken if the record breaks a rule."""
        self._check_founding(record)
        if self._to_be_voided and not isinstance(record, Voided):
            raise bad(
                "disputes", "most of its members disputed the round, but it was not voided", self._to_be_voided[0][0]
            )
        if self._to_be_absent and not isinstance(record, AbsenceRecorded):
            client = self._to_be_absent[0]
            raise bad("absence", "the client was left out of the report", self.rounds.ended()[-1].number, client)
        if self._to_be_ended is not None and not isinstance(record, self._to_be_ended[0]):
            number = self.rounds.last.number
            raise bad("phase end", "everybody had acted, but the end of the phase was not recorded", number)
        match record:
            case RegistryFounded() | LedgerFounded():
                pass  # checked above
            case Registered() | VrfKeyRotated() | MailboxKeyRotated() | Approved() | Revoked() | Withdrawn():
                self._membership(record)
            case AbsenceRecorded():
                self._absence(record)
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

    def barred_from(self, number: int, block: int) -> list[str]:
        """Accounts of registered clients that may not draw in a round of this number, opened up to this block."""
        members = self.rounds.members.values()
        return [member.account for member in members if self._bar(member, number, block)]

    def barred(self, member: Member, current: RoundRecords) -> str:
        """Why the ledger takes no draw of an active member in a round, in one clause; empty when it does."""
        if not self._approved_by(member, current.opened.opened_at):
            return "the federation's admin: this client is not approved"
        until = self._skipped_until.get(member.client, 0)
        return f"this client: absent too often, it sits out until round {until}" if until >= current.number else ""

    def is_active(self, account: str, block: int) -> bool:
        """Whether an account is a member's that may act for the coordinator in a block."""
        member = self.rounds.member(account)
        return member is not None and member.active_from <= block and self._is_approved(account, block)

    def _check_founding(self, record: Record) -> None:
        """The registry comes first, then the ledger; whoever is quick may join between the two."""
        if isinstance(record, _FOUNDING):
            if self._founded == len(_FOUNDING) or type(record) is not _FOUNDING[self._founded]:
                raise bad("founding", "the registry and the ledger were not founded once each, in this order")
            self._founded += 1
        elif self._founded < (1 if isinstance(record, _JOINING) else len(_FOUNDING)):
            raise bad("founding", "the records do not begin with the founding of the registry and the ledger")

    # --- membership -------------------------------------------------------------------------------------------------

    def _membership(self, record: Record) -> None:
        match record:
            case Registered():
                expected = len(self.rounds.members) + 1
                if record.client != expected or self.rounds.member(record.account) is not None:
                    raise bad("registration.index", f"index {record.client} is not the next one", client=record.client)
                self._vrf_key(record, "registration")
            case VrfKeyRotated():
                self._known(record.client, record.account, "rotation")
                self._vrf_key(record, "rotation")
            case MailboxKeyRotated():
                self._known(record.client, record.account, "mailbox rotation")
            case Withdrawn():
                self._known(record.client, record.account, "withdrawal")
            case Approved():
                self._by_admin(record, "approval")
                self._approved[record.account] = self._approved_from(record)
            case Revoked():
                # It acts from the next round on.
                self._by_admin(record, "revocation")
                self._revoked[record.account] = (record.at.block, self._approved.pop(record.account, record.at.block))

    def _approved_from(self, record: Approved) -> int:
        """After the delay, like a registration; at once where it takes back a revocation that has not acted yet."""
        revoked, since = self._revoked.get(record.account, (-1, 0))
        opened_at = self.rounds.latest.opened.opened_at if self.rounds.latest else 0
        if revoked >= opened_at:
            return since
        return record.at.block + self.facts.deployment.activation_delay

    def _by_admin(self, record: Approved | Revoked, what: str) -> None:
        if self.facts.deployment.open_membership or record.at.author != self.facts.deployment.admin:
            raise bad(what, f"it is signed by {record.at.author}, not by the federation's admin")

    def _known(self, client: int, account: str, what: str) -> None:
        member = self.rounds.members.get(client)
        if member is None or member.account != account:
            raise bad(what, f"account {account} is not client {client}", client=client)

    def _vrf_key(self, record: Registered | VrfKeyRotated, what: str) -> None:
        if (record.vrf_x, record.vrf_y) in self._vrf_keys:
            raise bad(f"{what}.vrf key", "the key is already registered", client=record.client)
        if record.active_from != record.at.block + self.facts.deployment.activation_delay:
            raise bad(f"{what}.active from", f"{record.active_from} is not the delay after it", client=record.client)
        alpha = tree.registration_alpha(self.facts.deployment.chain_id, self.facts.deployment.registry, record.account)
        self._proof(record, alpha, f"{what}.proof", None)
        self._vrf_keys.add((record.vrf_x, record.vrf_y))

    def _proof(self, record: Registered | VrfKeyRotated | Drawn, alpha: bytes, what: str, number: int | None) -> bytes:
        if isinstance(record, Drawn):
            member = self.rounds.members[record.client]
            x, y = member.vrf_x, member.vrf_y
        else:
            x, y = record.vrf_x, record.vrf_y
        try:
            public_key = bytes([2 + y % 2]) + x.to_bytes(32, "big")
            if vrf.coordinates(public_key) != (x, y):
                raise bad(what, "the VRF key is not on the curve", number, record.client)
            return _verified(public_key, record.proof, alpha)
        except vrf.InvalidProof as fault:
            raise bad(what, f"the VRF proof does not verify: {fault}", number, record.client) from None

    def _absence(self, record: AbsenceRecorded) -> None:
        ended = self.rounds.ended()
        if not ended:
            raise bad("absence", "no round has ended", client=record.client)
        current, client = ended[-1], record.client
        if not self._to_be_absent:
            if current.absences or not current.stands or self._draws(record.at.block):
                reason = "the round did not close, was already reported on, or the next round has begun to draw"
                raise bad("absence", reason, current.number, client)
            self._to_be_absent = self._absent(current)
        if not self._to_be_absent or self._to_be_absent.pop(0) != client:
            raise bad("absence", "the client was not absent, or the order is wrong", current.number, client)
        count = min(self._absences.get(client, 0) + 1, _MOST_ABSENCES)
        if record.absences != count:
            raise bad("absence.count", f"{record.absences} recorded, {count} counted", current.number, client)
        self._absences[client] = count
        if count % self.facts.settings.absence_limit == 0:
            self._skipped_until[client] = self.rounds.last.number + self.facts.settings.absence_rounds

    def _draws(self, block: int) -> bool:
        """Whether a round may still take draws in this block."""
        latest = self.rounds.last
        return latest.end is None and block <= latest.deadlines(self.facts.settings).draw_end

    def _absent(self, current: RoundRecords) -> list[int]:
        """Clients to name in a report on a closed round: all that did not commit, by ascending account."""
        uncommitted = (client for client in current.order if client not in current.commits)
        return sorted(uncommitted, key=lambda client: int(self.rounds.members[client].account, 16))

    def _bar(self, member: Member, number: int, opened_at: int) -> str:
        """Why a member may not draw in a round, given the block of its opening; empty if it may."""
        if member.active_from > opened_at:
            return "the client was not active yet"
        if not self._approved_by(member, opened_at):
            return "the client was not approved"
        if self._skipped_until.get(member.client, 0) >= number:
            return "the client sits out because of its absences"
        return "the client had withdrawn all its data" if self.rounds.left(member.client) else ""

    def _approved_by(self, member: Member, opened_at: int) -> bool:
        """Whether the member was approved, and for long enough, when a round was opened."""
        if self.facts.deployment.open_membership:
            return True
        account = member.account
        if account in self._approved:
            return self._approved[account] <= opened_at
        revoked, since = self._revoked.get(account, (-1, 0))
        return revoked >= opened_at >= since

    def _check_author(self, record: Drawn | Shared | Committed | Released | Disputed, what: str) -> Member:
        member = self.rounds.members.get(record.client)
        if member is None:
            raise bad(f"{what}.client", "the client is not registered", record.round, record.client)
        if record.at.author != member.account:
            reason = f"it is signed by {record.at.author}, not by the client"
            raise bad(f"{what}.author", reason, record.round, record.client)
        return member

    def _check_coordinator(self, record: RoundOpened | Recovered | Closed | Failed, what: str, since: int) -> None:
        """Whether the author may do what is the coordinator's alone until its grace after block ``since`` is over."""
        author, block = record.at.author, record.at.block
        if author == self.facts.deployment.coordinator:
            return
        if block <= since + self.facts.settings.coordinator_grace:
            raise bad(f"{what}.author", f"{author} acted within the coordinator's grace", record.round)
        if not self.is_active(author, block):
            raise bad(f"{what}.author", f"{author} is neither the coordinator nor an active member", record.round)

    def _is_approved(self, account: str, block: int) -> bool:
        return self.facts.deployment.open_membership or self._approved.get(account, block + 1) <= block

    # --- rounds -----------------------------------------------------------------------------------------------------

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
            self._check_coordinator(record, "opened", (latest.voided or latest.end).at.block)
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
        barred = sum(bool(self._bar(each, number, record.opened_at)) for each in self.rounds.members.values())
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
        member = self._check_author(record, "draw")
        if client in current.draws or len(current.draws) >= self.facts.settings.max_clients:
            raise bad("draw", "the client drew twice, or the round was full", number, client)
        if current.seed is None:
            raise bad("draw", "the seed was not fixed", number, client)
        if not deadlines.seed_block < record.at.block <= deadlines.draw_end or current.draw_end is not None:
            raise bad("draw.block", f"block {record.at.block} is outside the draw window", number, client)
        bar = self._bar(member, number, current.opened.opened_at)
        if bar:
            raise bad("draw.client", bar, number, client)
        if not 0 < record.samples <= self.facts.settings.max_samples:
            raise bad("draw.samples", f"{record.samples} samples", number, client)
        alpha = tree.draw_alpha(*self.facts.place, number, current.seed.seed)
        beta = self._proof(record, alpha, "draw.proof", number)
        if not tree.is_drawn(beta, current.opened.sampling_rate):
            raise bad("draw.proof", "the client's output is above the sampling threshold", number, client)
        if len(current.draws) + 1 == current.awaited(self.facts.settings.max_clients):
            self._to_be_ended = (DrawEnded, record.at.transaction)

    def _sealed(self, record: Sealed, current: RoundRecords, deadlines: Deadlines) -> None:
        if current.sealed is not None or not deadlines.order_block < record.at.block <= deadlines.seal_end:
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
        self._check_author(record, _name(record))
        match record:
            case Shared():
                allowed, present = current.draws, current.shares
                first, last = current.sealed.at.block if current.sealed else deadlines.close_end, deadlines.share_end
            case Committed():
                allowed, present = current.shares, current.commits
                first, last = deadlines.share_end + 1, deadlines.commit_end
            case Released():
                allowed, present = current.draws, current.releases
                first, last = deadlines.commit_end + 1, deadlines.recover_end
        if record.client not in allowed:
            raise bad(_name(record), "the client took no part in the previous phase", record.round, record.client)
        if record.client in present:
            raise bad(_name(record), "recorded twice", record.round, record.client)
        if not first <= record.at.block <= last:
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
        if current.recovered is not None or not deadlines.commit_end < record.at.block <= deadlines.recover_end:
            raise bad("recovery", "recorded twice or outside its window", record.round)
        if current.sealed is None:
            raise bad("recovery", "the order was not sealed", record.round)
        self._check_coordinator(record, "recovery", deadlines.commit_end)
        if record.survivors != len(current.commits):
            raise bad("recovery.survivors", f"{record.survivors}, but {len(current.commits)} committed", record.round)

    def _ended(self, record: Closed | Skipped | Failed, current: RoundRecords, deadlines: Deadlines) -> None:
        block, number = record.at.block, record.round
        match record:
            case Closed():
                if current.recovered is None or block > deadlines.close_end or not any(record.model_digest):
                    raise bad("closed", "not recovered, after its deadline, or without a model", number)
                self._check_coordinator(record, "closed", current.recovered.at.block)
                self._model, self._standing = record.model_digest, number
            case Skipped():
                if len(current.draws) >= self.facts.settings.quorum or block <= deadlines.draw_end:
                    raise bad("skipped", f"{len(current.draws)} clients had drawn", number)
                if record.drawn != len(current.draws):
                    raise bad("skipped.count", f"{record.drawn} recorded, {len(current.draws)} drew", number)
            case Failed():
                overdue = _overdue(current, deadlines, block)
                if overdue != (record.reason == FailureReason.DEADLINE):
                    raise bad("failed", "its reason and the passed deadlines contradict each other", number)
                if not overdue:
                    self._failed_early(record, current, deadlines)

    def _failed_early(self, record: Failed, current: RoundRecords, deadlines: Deadlines) -> None:
        if current.sealed is None or record.at.block <= deadlines.commit_end or record.reason == FailureReason.NONE:
            raise bad("failed", "recorded before the commit phase was over, or without a reason", record.round)
        since = current.recovered.at.block if current.recovered is not None else deadlines.commit_end
        self._check_coordinator(record, "failed", since)

    # --- disputes ---------------------------------------------------------------------------------------------------

    def _disputed(self, record: Disputed) -> None:
        number, client = record.round, record.client
        self._check_author(record, "dispute")
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


def _overdue(current: RoundRecords, deadlines: Deadlines, block: int) -> bool:
    if current.sealed is None:
        return block > deadlines.seal_end
    if current.recovered is None:
        return block > deadlines.recover_end
    return block > deadlines.close_end


def _name(record: Record) -> str:
    names = {Shared: "share", Committed: "commit", Released: "release", Drawn: "draw", SeedFixed: "seed"}
    return names.get(type(record), type(record).__name__.lower())


@functools.lru_cache(maxsize=1 << 14)
def _verified(public_key: bytes, proof: bytes, alpha: bytes) -> bytes:
    """The output of a VRF proof; every role of a process reads the same ones."""
    return vrf.verify(public_key, proof, alpha)
