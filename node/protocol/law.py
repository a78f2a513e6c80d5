"""The law: what the contracts enforce, re-checked record by record by whoever acts on the ledger or audits it.

Nobody has to trust that the contracts on the chain are the published ones, or that an endpoint tells the truth: every
author, proof, window, membership and order is recomputed from the records alone. That a record is its
author's is checked where it is read (``chain.network.blocks``). What an honest member refuses although the law allows
it stands in ``policy``.

A client is active a delay after it registered. Where the federation's admin approves members, an approval acts after
the same delay, a revocation from the next round on. A member that was absent from too many rounds sits out.
"""

import functools
from dataclasses import dataclass, field

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.records import (
    KINDS,
    AbsenceRecorded,
    AccountRecord,
    AdminRecord,
    Approved,
    Closed,
    Disputed,
    Drawn,
    DrawRejected,
    Failed,
    FailureReason,
    FoundingRecord,
    LedgerFounded,
    MailboxKeyRotated,
    MemberRecord,
    Phase,
    PhaseEnd,
    Record,
    Recovered,
    Registered,
    RegistryFounded,
    Revoked,
    RoundOpened,
    RoundRecord,
    SealChunk,
    Sealed,
    SeedFixed,
    Skipped,
    Voided,
    VrfKeyRotated,
    Withdrawn,
)
from fedgrove.chain.records.phases import Deadlines
from fedgrove.common.errors import InvalidContent
from fedgrove.node.protocol.bad_record import bad
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.clock import coordinator_turn, phase_of
from fedgrove.node.protocol.rounds import Member, RoundRecords, Rounds

_FOUNDING = (RegistryFounded, LedgerFounded)
_MOST_ABSENCES = 0xFFFF  # at which the registry's count stays
_ENDINGS = {kind.ENDS: kind for kind in KINDS if issubclass(kind, PhaseEnd)}
"""By the record that each leaves in a phase, the record that everybody has."""


@dataclass
class Law:
    """Checks each record against all records before it. Call ``check`` before the record is added to ``rounds``."""

    facts: ChainFacts
    rounds: Rounds
    _founded: int = 0
    _model: bytes = b""
    _standing: int = 0
    _to_be_voided: list[tuple[int, int]] = field(default_factory=list)
    _to_be_ended: tuple[type[PhaseEnd], bytes] | None = None
    _vrf_keys: set[tuple[int, int]] = field(default_factory=set)
    _approved: dict[str, int] = field(default_factory=dict)
    _revoked: dict[str, tuple[int, int]] = field(default_factory=dict)
    _absences: dict[int, int] = field(default_factory=dict)
    _sitting_out: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _to_be_absent: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._model = bytes.fromhex(self.facts.deployment.terms.model)

    def check(self, record: Record) -> None:
        """Raise RuleBroken if the record breaks a rule."""
        # (1) both contracts were founded, once each
        self._check_founding(record)
        # (2) what the records before oblige the ledger to record next comes before anything else
        self._check_announced(record)
        # (3) its own rule; a kind of record without one is not lawful
        match record:
            case FoundingRecord():
                pass  # checked above
            case AccountRecord():
                self._by_account(record)
            case AdminRecord():
                self._by_admin(record)
            case AbsenceRecorded():
                self._absence(record)
            case RoundOpened():
                self._opened(record)
            case Disputed():
                self._disputed(record)
            case Voided():
                self._voided(record)
            case RoundRecord():
                self._within_round(record)
            case _:
                raise bad(record.FIELD, "no rule allows this record")

    # --- who may act ------------------------------------------------------------------------------------------------

    def barred_from(self, number: int, block: int) -> list[str]:
        """Accounts of registered clients that may not draw in a round of this number, opened up to this block."""
        members = self.rounds.members.values()
        return [member.account for member in members if self.why_barred(member, number, block)]

    def barred(self, member: Member, current: RoundRecords) -> str:
        """Why the ledger takes no draw of an active member in a round, in one clause; empty when it does."""
        if not self._approved_by(member, current.opened.opened_at):
            return "the federation's admin: this client is not approved"
        until = self.sits_out_until(member.client, current.number)
        return f"this client: absent too often, it sits out until round {until}" if until >= current.number else ""

    def is_active(self, account: str, block: int) -> bool:
        """Whether an account is a member's that may act for the coordinator in a block."""
        member = self.rounds.member(account)
        if member is None or member.active_from > block:
            return False
        return self.facts.deployment.open_membership or self._approved.get(account, block + 1) <= block

    def why_barred(self, member: Member, number: int, opened_at: int) -> str:
        """Why a member may not draw in a round, given the block of its opening; empty if it may."""
        if member.active_from > opened_at:
            return "the client was not active yet"
        if not self._approved_by(member, opened_at):
            return "the client was not approved"
        if self.sits_out_until(member.client, number) >= number:
            return "the client sits out because of its absences"
        return "the client had withdrawn all its data" if self.rounds.left(member.client) else ""

    def sits_out_until(self, client: int, number: int) -> int:
        """The last round that a client must sit out because of absences reported before this round; 0 for none."""
        return max((until for since, until in self._sitting_out.get(client, []) if since < number), default=0)

    def _approved_by(self, member: Member, opened_at: int) -> bool:
        """Whether the member was approved, and for long enough, when a round was opened."""
        if self.facts.deployment.open_membership:
            return True
        account = member.account
        if account in self._approved:
            return self._approved[account] <= opened_at
        revoked, since = self._revoked.get(account, (-1, 0))
        return revoked >= opened_at >= since

    def _check_author(self, record: MemberRecord) -> Member:
        """The member that a record names; RuleBroken if it is none, or did not sign it."""
        member = self.rounds.members.get(record.client)
        if member is None:
            raise bad(f"{record.FIELD}.client", "the client is not registered", record.round, record.client)
        if record.at.author != member.account:
            reason = f"it is signed by {record.at.author}, not by the client"
            raise bad(f"{record.FIELD}.author", reason, record.round, record.client)
        return member

    def _check_coordinator(self, record: RoundRecord, current: RoundRecords) -> None:
        """Whether the author may do what is the coordinator's alone until its grace, from its turn on, is over."""
        author, block = record.at.author, record.at.block
        if author == self.facts.deployment.coordinator:
            return
        settings = self.facts.settings
        turn, _ = coordinator_turn(current, current.deadlines(settings), settings)
        if block <= turn + settings.coordinator_grace:
            raise bad(f"{record.FIELD}.author", f"{author} acted within the coordinator's grace", record.round)
        if not self.is_active(author, block):
            reason = f"{author} is neither the coordinator nor an active member"
            raise bad(f"{record.FIELD}.author", reason, record.round)

    # --- founding, and what must come next --------------------------------------------------------------------------

    def _check_founding(self, record: Record) -> None:
        """The registry comes first, then the ledger; whoever is quick may join between the two."""
        if isinstance(record, FoundingRecord):
            if self._founded == len(_FOUNDING) or type(record) is not _FOUNDING[self._founded]:
                raise bad("founding", "the registry and the ledger were not founded once each, in this order")
            self._founded += 1
        elif self._founded < (1 if isinstance(record, AccountRecord | AdminRecord) else len(_FOUNDING)):
            raise bad("founding", "the records do not begin with the founding of the registry and the ledger")

    def _check_announced(self, record: Record) -> None:
        if self._to_be_voided and not isinstance(record, Voided):
            reason = "most of its members disputed the round, but it was not voided"
            raise bad("disputes", reason, self._to_be_voided[0][0])
        if self._to_be_absent and not isinstance(record, AbsenceRecorded):
            client = self._to_be_absent[0]
            raise bad("absence", "the client was left out of the report", self.rounds.ended()[-1].number, client)
        if self._to_be_ended is not None and not isinstance(record, self._to_be_ended[0]):
            number = self.rounds.last.number
            raise bad("phase end", "everybody had acted, but the end of the phase was not recorded", number)

    # --- members ----------------------------------------------------------------------------------------------------

    def _by_account(self, record: AccountRecord) -> None:
        if isinstance(record, Registered):
            expected = len(self.rounds.members) + 1
            if record.client != expected or self.rounds.member(record.account) is not None:
                raise bad("registration.index", f"index {record.client} is not the next one", client=record.client)
        else:
            member = self.rounds.members.get(record.client)
            if member is None or member.account != record.account:
                reason = f"account {record.account} is not client {record.client}"
                raise bad(record.FIELD, reason, client=record.client)
        match record:
            case Registered() | VrfKeyRotated():
                self._vrf_key(record)
            case MailboxKeyRotated() | Withdrawn():
                pass  # a member may at any time
            case _:
                raise bad(record.FIELD, "no rule allows this record", client=record.client)

    def _vrf_key(self, record: Registered | VrfKeyRotated) -> None:
        if (record.vrf_x, record.vrf_y) in self._vrf_keys:
            raise bad(f"{record.FIELD}.vrf key", "the key is already registered", client=record.client)
        if record.active_from != record.at.block + self.facts.deployment.activation_delay:
            reason = f"{record.active_from} is not the delay after it"
            raise bad(f"{record.FIELD}.active from", reason, client=record.client)
        alpha = tree.registration_alpha(self.facts.deployment.chain_id, self.facts.deployment.registry, record.account)
        _check_proof(record, record, alpha)
        self._vrf_keys.add((record.vrf_x, record.vrf_y))

    def _by_admin(self, record: AdminRecord) -> None:
        if self.facts.deployment.open_membership or record.at.author != self.facts.deployment.admin:
            raise bad(record.FIELD, f"it is signed by {record.at.author}, not by the federation's admin")
        match record:
            case Approved():
                self._approved[record.account] = self._approved_from(record)
            case Revoked():
                # It acts from the next round on.
                since = self._approved.pop(record.account, record.at.block)
                self._revoked[record.account] = (record.at.block, since)
            case _:
                raise bad(record.FIELD, "no rule allows this record")

    def _approved_from(self, record: Approved) -> int:
        """After the delay, like a registration; at once where it takes back a revocation that has not acted yet."""
        revoked, since = self._revoked.get(record.account, (-1, 0))
        opened_at = self.rounds.latest.opened.opened_at if self.rounds.latest else 0
        if revoked >= opened_at:
            return since
        return record.at.block + self.facts.deployment.activation_delay

    def _absence(self, record: AbsenceRecorded) -> None:
        ended = self.rounds.ended()
        if not ended:
            raise bad("absence", "no round has ended", client=record.client)
        current, client = ended[-1], record.client
        if not self._to_be_absent:
            if current.absences or not current.stands or self._draws(record.at.block):
                reason = "the round did not close, was already reported on, or the next round has begun to draw"
                raise bad("absence", reason, current.number, client)
            # A report names all that did not commit, by ascending account.
            uncommitted = (each for each in current.order if each not in current.commits)
            self._to_be_absent = sorted(uncommitted, key=lambda each: int(self.rounds.members[each].account, 16))
        if not self._to_be_absent or self._to_be_absent.pop(0) != client:
            raise bad("absence", "the client was not absent, or the order is wrong", current.number, client)
        count = min(self._absences.get(client, 0) + 1, _MOST_ABSENCES)
        if record.absences != count:
            raise bad("absence.count", f"{record.absences} recorded, {count} counted", current.number, client)
        self._absences[client] = count
        if count % self.facts.settings.absence_limit == 0:
            latest = self.rounds.last.number
            self._sitting_out.setdefault(client, []).append((latest, latest + self.facts.settings.absence_rounds))

    def _draws(self, block: int) -> bool:
        """Whether a round may still take draws in this block."""
        latest = self.rounds.last
        return latest.end is None and block <= latest.deadlines(self.facts.settings).draw_end

    # --- a round ----------------------------------------------------------------------------------------------------

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
            self._check_coordinator(record, latest)
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
        barred = len(self.barred_from(number, record.opened_at))
        if record.barred > barred:
            raise bad("opened.barred", f"{record.barred} were named, but {barred} may not draw", number)

    def _within_round(self, record: RoundRecord) -> None:
        number, current = record.round, self.rounds.latest
        if current is None or current.number != number:
            raise bad(record.FIELD, "the round was not open", number)
        if current.end is not None:
            raise bad(record.FIELD, "the round had ended", number)
        deadlines = current.deadlines(self.facts.settings)
        match record:
            case SeedFixed():
                self._seed(record, current, deadlines)
            case Drawn():
                self._drawn(record, current, deadlines)
            case DrawRejected() | SealChunk():
                pass  # neither changes anything
            case Sealed():
                self._sealed(record, current, deadlines)
            case MemberRecord(AFTER=type() as after):
                self._by_member(record, current.of(after), current, deadlines)
            case PhaseEnd():
                self._phase_ended(record)
            case Recovered():
                self._recovered(record, current, deadlines)
            case Closed():
                self._closed(record, current, deadlines)
            case Skipped():
                self._skipped(record, current, deadlines)
            case Failed():
                self._failed(record, current, deadlines)
            case _:
                raise bad(record.FIELD, "no rule allows this record", number)

    def _seed(self, record: SeedFixed, current: RoundRecords, deadlines: Deadlines) -> None:
        if current.seed is not None or record.at.block <= deadlines.seed_block:
            raise bad("seed", "fixed twice, or before its block", record.round)
        if record.block_hash != self.facts.block_hash(deadlines.seed_block):
            raise bad("seed.block hash", f"it is not the hash of block {deadlines.seed_block}", record.round)
        if record.seed != tree.seed(record.block_hash, self.rounds.root_before(record.round)):
            raise bad("seed", "it does not follow from its block and the previous order", record.round)

    def _drawn(self, record: Drawn, current: RoundRecords, deadlines: Deadlines) -> None:
        number, client = record.round, record.client
        member = self._check_author(record)
        if client in current.draws or len(current.draws) >= self.facts.settings.max_clients:
            raise bad("draw", "the client drew twice, or the round was full", number, client)
        if current.seed is None:
            raise bad("draw", "the seed was not fixed", number, client)
        if phase_of(current, deadlines, record.at.block) is not Phase.DRAW:
            raise bad("draw.block", f"block {record.at.block} is outside the draw window", number, client)
        bar = self.why_barred(member, number, current.opened.opened_at)
        if bar:
            raise bad("draw.client", bar, number, client)
        if not 0 < record.samples <= self.facts.settings.max_samples:
            raise bad("draw.samples", f"{record.samples} samples", number, client)
        beta = _check_proof(record, member, tree.draw_alpha(*self.facts.place, number, current.seed.seed))
        if not tree.is_drawn(beta, current.opened.sampling_rate):
            raise bad("draw.proof", "the client's output is above the sampling threshold", number, client)
        self._announce_end(record, current, current.awaited(self.facts.settings.max_clients))

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

    def _by_member(
        self, record: MemberRecord, allowed: dict[int, MemberRecord], current: RoundRecords, deadlines: Deadlines
    ) -> None:
        """One record of each client of these, in its phase."""
        self._check_author(record)
        number, client, block = record.round, record.client, record.at.block
        if client not in allowed:
            raise bad(record.FIELD, "the client took no part in the previous phase", number, client)
        if client in current.of(type(record)):
            raise bad(record.FIELD, "recorded twice", number, client)
        if phase_of(current, deadlines, block) is not record.PHASE:
            raise bad(f"{record.FIELD}.block", f"block {block} is outside its window", number, client)
        self._announce_end(record, current, len(allowed))

    def _announce_end(self, record: MemberRecord, current: RoundRecords, awaited: int) -> None:
        """Expect the end of the phase in the same transaction, where this is the last record of those awaited."""
        ending = _ENDINGS.get(type(record))
        if ending is not None and len(current.of(type(record))) + 1 == awaited:
            self._to_be_ended = (ending, record.at.transaction)

    def _phase_ended(self, record: PhaseEnd) -> None:
        """It follows in the transaction of the last who acted, and nowhere else."""
        if self._to_be_ended != (type(record), record.at.transaction):
            raise bad("phase end", "not everybody had acted in the phase, or it had ended before", record.round)
        self._to_be_ended = None

    # --- how a round ends -------------------------------------------------------------------------------------------

    def _recovered(self, record: Recovered, current: RoundRecords, deadlines: Deadlines) -> None:
        if phase_of(current, deadlines, record.at.block) is not Phase.RECOVER:
            raise bad("recovery", "recorded twice, outside its window, or before the order was sealed", record.round)
        self._check_coordinator(record, current)
        if record.survivors != len(current.commits):
            raise bad("recovery.survivors", f"{record.survivors}, but {len(current.commits)} committed", record.round)

    def _closed(self, record: Closed, current: RoundRecords, deadlines: Deadlines) -> None:
        if phase_of(current, deadlines, record.at.block) is not Phase.CLOSE or not any(record.model_digest):
            raise bad("closed", "not recovered, after its deadline, or without a model", record.round)
        self._check_coordinator(record, current)
        self._model, self._standing = record.model_digest, record.round

    def _skipped(self, record: Skipped, current: RoundRecords, deadlines: Deadlines) -> None:
        number, drawn = record.round, len(current.draws)
        if drawn >= self.facts.settings.quorum or record.at.block <= deadlines.draw_end:
            raise bad("skipped", f"{drawn} clients had drawn", number)
        if record.drawn != drawn:
            raise bad("skipped.count", f"{record.drawn} recorded, {drawn} drew", number)

    def _failed(self, record: Failed, current: RoundRecords, deadlines: Deadlines) -> None:
        phase = phase_of(current, deadlines, record.at.block)
        overdue = phase is Phase.OVERDUE
        if overdue != (record.reason == FailureReason.DEADLINE):
            raise bad("failed", "its reason and the passed deadlines contradict each other", record.round)
        if overdue:
            return  # anybody may say so
        if phase not in (Phase.RECOVER, Phase.CLOSE) or record.reason == FailureReason.NONE:
            raise bad("failed", "recorded before the commit phase was over, or without a reason", record.round)
        self._check_coordinator(record, current)

    def _disputed(self, record: Disputed) -> None:
        number, client = record.round, record.client
        self._check_author(record)
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


def _check_proof(
    record: Registered | VrfKeyRotated | Drawn, key: Registered | VrfKeyRotated | Member, alpha: bytes
) -> bytes:
    """The output of a record's VRF proof over ``alpha`` by a key; RuleBroken if it does not verify."""
    what, number = f"{record.FIELD}.proof", record.round if isinstance(record, Drawn) else None
    try:
        public_key = bytes([2 + key.vrf_y % 2]) + key.vrf_x.to_bytes(32, "big")
        if vrf.coordinates(public_key) != (key.vrf_x, key.vrf_y):
            raise bad(what, "the VRF key is not on the curve", number, record.client)
        return _verified(public_key, record.proof, alpha)
    except InvalidContent as fault:
        raise bad(what, f"the VRF proof does not verify: {fault}", number, record.client) from None


@functools.lru_cache(maxsize=1 << 14)
def _verified(public_key: bytes, proof: bytes, alpha: bytes) -> bytes:
    """The output of a VRF proof; every role of a process reads the same ones."""
    return vrf.verify(public_key, proof, alpha)
