"""The ledger's rules, re-checked record by record.

The auditor does not trust that the contracts on the chain are the ones that were published: every proof, window,
membership and order is recomputed here from the records alone (spec 01).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from chain import tree, vrf
from chain.deployment import Settings
from chain.phases import Deadlines
from chain.records import (
    AbsenceRecorded,
    Approved,
    Closed,
    Committed,
    Disputed,
    Drawn,
    Failed,
    FailureReason,
    MailboxKeyRotated,
    Record,
    Recovered,
    Registered,
    Released,
    Revoked,
    RoundOpened,
    Sealed,
    SeedFixed,
    Shared,
    Skipped,
    Voided,
    VrfKeyRotated,
    Withdrawn,
)
from node.auditing.verdict import bad
from node.rounds import Member, RoundRecords, Rounds

EVERYONE = 1_000_000


@dataclass(frozen=True)
class ChainFacts:
    """Where the records come from and the terms fixed at deployment.

    ``head_block`` is the last block looked at; ``block_hash`` maps a number up to it to 32 bytes.
    """

    chain_id: int
    registry: str
    ledger: str
    settings: Settings
    open_membership: bool
    activation_delay: int
    head_block: int
    block_hash: Callable[[int], bytes]


@dataclass
class LedgerRules:
    """Checks each record against all records before it. Call ``check`` before the record is added to ``rounds``."""

    facts: ChainFacts
    rounds: Rounds
    _vrf_keys: set[tuple[int, int]] = field(default_factory=set)
    _approved: dict[str, int] = field(default_factory=dict)
    _absences: dict[int, int] = field(default_factory=dict)
    _skipped_until: dict[int, int] = field(default_factory=dict)
    _model: bytes | None = None
    _standing: int = 0
    _to_be_voided: list[tuple[int, int]] = field(default_factory=list)

    def check(self, record: Record) -> None:
        """Raise AuditFailure if the record breaks a rule."""
        if self._to_be_voided and not isinstance(record, Voided):
            raise bad(
                "disputes", "most of its members disputed the round, and it was not voided", self._to_be_voided[0][0]
            )
        match record:
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
            case _:
                self._within_round(record)

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
                # An approval in the middle of a round takes effect like a registration: after the delay.
                self._approved[record.account] = record.at.block + self.facts.activation_delay
            case Revoked():
                self._approved.pop(record.account, None)

    def _known(self, client: int, account: str, what: str) -> None:
        member = self.rounds.members.get(client)
        if member is None or member.account != account:
            raise bad(what, f"account {account} is not client {client}", client=client)

    def _vrf_key(self, record: Registered | VrfKeyRotated, what: str) -> None:
        if (record.vrf_x, record.vrf_y) in self._vrf_keys:
            raise bad(f"{what}.vrf key", "the key is registered already", client=record.client)
        if record.active_from != record.at.block + self.facts.activation_delay:
            raise bad(f"{what}.active from", f"{record.active_from} is not the delay after it", client=record.client)
        alpha = tree.registration_alpha(self.facts.chain_id, self.facts.registry, record.account)
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
            return vrf.verify(public_key, record.proof, alpha)
        except vrf.InvalidProof as fault:
            raise bad(what, f"the VRF proof does not verify: {fault}", number, record.client) from None

    def _absence(self, record: AbsenceRecorded) -> None:
        ended = self.rounds.ended()
        if not ended:
            raise bad("absence", "no round has ended", client=record.client)
        entry = ended[-1]
        count = self._absences.get(record.client, 0) + 1
        if not self._was_absent(entry, record.client):
            raise bad("absence", "the client was not absent", entry.number, record.client)
        if record.absences != count:
            raise bad("absence.count", f"{record.absences} recorded, {count} counted", entry.number, record.client)
        self._absences[record.client] = count
        settings = self.facts.settings
        if settings.absence_limit and count % settings.absence_limit == 0:
            self._skipped_until[record.client] = self.rounds.latest.number + settings.absence_rounds

    def _was_absent(self, entry: RoundRecords, client: int) -> bool:
        if client in entry.absences or client in entry.commits or entry.voided is not None:
            return False
        if client in entry.draws:
            return entry.sealed is not None
        member = self.rounds.members.get(client)
        everyone = entry.opened.sampling_rate == EVERYONE and entry.seed is not None
        if not everyone or member is None or len(entry.draws) >= self.facts.settings.max_clients:
            return False
        sits_out = self._skipped_until.get(client, 0) >= entry.number
        return self._approved_by(member, entry) and member.active_from <= entry.opened.opened_at and not sits_out

    def _approved_by(self, member: Member, entry: RoundRecords) -> bool:
        """Whether the member was approved, and for long enough, when the round was opened."""
        if self.facts.open_membership:
            return True
        return member.account in self._approved and self._approved[member.account] <= entry.opened.opened_at

    # --- rounds -----------------------------------------------------------------------------------------------------

    def _opened(self, record: RoundOpened) -> None:
        latest = self.rounds.latest
        number = record.round
        if number != (latest.number + 1 if latest else 1):
            raise bad("opened", "the round's number does not follow the one before", number)
        if latest is not None and latest.end is None:
            raise bad("opened", f"round {latest.number} had not ended", number)
        if self._model is not None and record.model_digest != self._model:
            raise bad("opened.model", "it is not the model that the round before left standing", number)
        if record.opened_at != record.at.block:
            raise bad("opened.block", f"{record.opened_at} is not the block of the record", number)
        if record.seed_block != record.opened_at + self.facts.settings.seed_delay:
            raise bad("opened.seed block", "it is not the seed delay after the opening", number)
        if not 0 < record.sampling_rate <= EVERYONE:
            raise bad("opened.sampling rate", f"{record.sampling_rate} parts per million", number)
        self._model = record.model_digest

    def _within_round(self, record: Record) -> None:
        number = record.round
        entry = self.rounds.latest
        if entry is None or entry.number != number:
            raise bad(_name(record), "the round was not open", number)
        if entry.end is not None:
            raise bad(_name(record), "the round had ended", number)
        deadlines = Deadlines.of(entry.opened.opened_at, self.facts.settings)
        match record:
            case SeedFixed():
                self._seed(record, entry, deadlines)
            case Drawn():
                self._drawn(record, entry, deadlines)
            case Sealed():
                self._sealed(record, entry, deadlines)
            case Shared() | Committed() | Released():
                self._member_record(record, entry, deadlines)
            case Recovered():
                self._recovered(record, entry, deadlines)
            case Closed() | Skipped() | Failed():
                self._ended(record, entry, deadlines)

    def _seed(self, record: SeedFixed, entry: RoundRecords, deadlines: Deadlines) -> None:
        if entry.seed is not None or record.at.block <= deadlines.seed_block:
            raise bad("seed", "fixed twice, or before its block", record.round)
        if record.block_hash != self.facts.block_hash(deadlines.seed_block):
            raise bad("seed.block hash", f"it is not the hash of block {deadlines.seed_block}", record.round)
        sealed = [past.sealed for past in self.rounds.rounds.values() if past.sealed is not None]
        previous_root = sealed[-1].order_root if sealed else bytes(32)
        if record.seed != tree.seed(record.block_hash, previous_root):
            raise bad("seed", "it does not follow from its block and the order before", record.round)

    def _drawn(self, record: Drawn, entry: RoundRecords, deadlines: Deadlines) -> None:
        number, client = record.round, record.client
        member = self.rounds.members.get(client)
        if member is None:
            raise bad("draw.client", "the client is not registered", number, client)
        if client in entry.draws:
            raise bad("draw", "the client drew twice", number, client)
        if entry.seed is None:
            raise bad("draw", "the seed was not fixed", number, client)
        if not deadlines.seed_block < record.at.block <= deadlines.draw_end:
            raise bad("draw.block", f"block {record.at.block} is outside the draw window", number, client)
        if member.active_from > entry.opened.opened_at:
            raise bad("draw.client", "the client was not active yet", number, client)
        if not self._approved_by(member, entry):
            raise bad("draw.client", "the client was not approved", number, client)
        if self._skipped_until.get(client, 0) >= number:
            raise bad("draw.client", "the client sits out because of its absences", number, client)
        if not 0 < record.samples <= self.facts.settings.max_samples:
            raise bad("draw.samples", f"{record.samples} samples", number, client)
        alpha = tree.draw_alpha(self.facts.chain_id, self.facts.ledger, number, entry.seed.seed)
        beta = self._proof(record, alpha, "draw.proof", number)
        if not tree.is_drawn(beta, entry.opened.sampling_rate):
            raise bad("draw.proof", "the client's output is above the sampling threshold", number, client)

    def _sealed(self, record: Sealed, entry: RoundRecords, deadlines: Deadlines) -> None:
        if entry.sealed is not None or not deadlines.draw_end < record.at.block <= deadlines.seal_end:
            raise bad("order", "sealed twice or outside its window", record.round)
        if record.drawn != len(entry.draws) or record.drawn < self.facts.settings.quorum:
            raise bad("order.count", f"{record.drawn} sealed, {len(entry.draws)} drew", record.round)
        if record.order_root != tree.order_root(sorted(entry.tickets)):
            raise bad("order.root", "it is not the root over the sorted tickets", record.round)

    def _member_record(self, record: Shared | Committed | Released, entry: RoundRecords, deadlines: Deadlines) -> None:
        match record:
            case Shared():
                allowed, present = entry.draws, entry.shares
                first, last = entry.sealed.at.block if entry.sealed else deadlines.close_end, deadlines.share_end
            case Committed():
                allowed, present = entry.shares, entry.commits
                first, last = deadlines.share_end + 1, deadlines.commit_end
            case Released():
                allowed, present = entry.draws, entry.releases
                first, last = deadlines.commit_end + 1, deadlines.recover_end
        if record.client not in allowed:
            raise bad(_name(record), "the client had no part in the phase before", record.round, record.client)
        if record.client in present:
            raise bad(_name(record), "recorded twice", record.round, record.client)
        if not first <= record.at.block <= last:
            raise bad(
                f"{_name(record)}.block", f"block {record.at.block} is outside its window", record.round, record.client
            )

    def _recovered(self, record: Recovered, entry: RoundRecords, deadlines: Deadlines) -> None:
        if entry.recovered is not None or not deadlines.commit_end < record.at.block <= deadlines.recover_end:
            raise bad("recovery", "recorded twice or outside its window", record.round)
        if record.survivors != len(entry.commits):
            raise bad("recovery.survivors", f"{record.survivors}, but {len(entry.commits)} committed", record.round)

    def _ended(self, record: Closed | Skipped | Failed, entry: RoundRecords, deadlines: Deadlines) -> None:
        block, number = record.at.block, record.round
        match record:
            case Closed():
                if entry.recovered is None or block > deadlines.close_end:
                    raise bad("closed", "not recovered, or after its deadline", number)
                self._model = record.model_digest
                self._standing = number
            case Skipped():
                if len(entry.draws) >= self.facts.settings.quorum or block <= deadlines.draw_end:
                    raise bad("skipped", f"{len(entry.draws)} clients had drawn", number)
                if record.drawn != len(entry.draws):
                    raise bad("skipped.count", f"{record.drawn} recorded, {len(entry.draws)} drew", number)
            case Failed():
                if record.reason == FailureReason.DEADLINE:
                    if not _overdue(entry, deadlines, block):
                        raise bad("failed", "no deadline had passed", number)
                elif entry.sealed is None or block <= deadlines.commit_end:
                    raise bad("failed", "recorded before the commit phase was over", number)

    # --- disputes ---------------------------------------------------------------------------------------------------

    def _disputed(self, record: Disputed) -> None:
        number, client = record.round, record.client
        if number == 0 or number != self._standing:
            raise bad("dispute", "it is not the latest closed round, or it is void already", number, client)
        entry = self.rounds.rounds[number]
        if client not in entry.commits or client in entry.disputes:
            raise bad("dispute", "the client had no part in the round, or disputed it before", number, client)
        disputes = len(entry.disputes) + 1
        if 2 * disputes > len(entry.commits):
            self._to_be_voided = [(number, disputes)]
            latest = self.rounds.latest
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


def _overdue(entry: RoundRecords, deadlines: Deadlines, block: int) -> bool:
    if entry.sealed is None:
        return block > deadlines.seal_end
    if entry.recovered is None:
        return block > deadlines.recover_end
    return block > deadlines.close_end


def _name(record: Record) -> str:
    names = {Shared: "share", Committed: "commit", Released: "release", Drawn: "draw", SeedFixed: "seed"}
    return names.get(type(record), type(record).__name__.lower())
