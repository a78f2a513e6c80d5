"""The law: what the contracts enforce, re-checked record by record by whoever acts on the ledger or audits it.

Nobody has to trust that the contracts on the chain are the published ones, or that an endpoint tells the truth: every
author, proof, window, membership and order is recomputed from the records alone. That a record is its
author's is checked where it is read (``chain.network.blocks``). What an honest member refuses although the law allows
it stands in ``policy``.

Who may take part is approved before it registers, unless membership is open, and active a delay after that. Whoever is
approved again after a revocation waits for the delay, too; a revocation acts from the next round on. A member that drew
in none of the last rounds of all members is idle: an opening may list it, and nobody waits for it in that round.

Only the clock, a count, or more than half of those that committed end a round without a model. What the latter may say
of it, and what follows, stands in ``judgements``; the rules of rounds with bounds in ``bounded_rounds``.
"""

import functools
from collections import deque
from dataclasses import dataclass, field, replace

from eth_utils import keccak, to_canonical_address

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.records import (
    KINDS,
    AccountRecord,
    AdminRecord,
    Affirmed,
    Approved,
    Closed,
    Drawn,
    DrawRejected,
    Failed,
    FoundingRecord,
    Judged,
    LedgerFounded,
    MailboxKeyRotated,
    MemberRecord,
    Phase,
    PhaseEnd,
    Record,
    Registered,
    RegistryFounded,
    Released,
    Resumed,
    Revealed,
    Revoked,
    RoundOpened,
    RoundRecord,
    SealChunk,
    Sealed,
    SeedFixed,
    Skipped,
    Vouched,
    VrfKeyRotated,
    Withdrawn,
)
from fedgrove.chain.records.phases import Deadlines
from fedgrove.common.errors import InvalidContent
from fedgrove.node.protocol.bad_record import RuleBroken, bad
from fedgrove.node.protocol.bounded_rounds import check_reveal, check_sketch, check_stage, left_for_sum
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.clock import coordinator_turn, draw_window_end, phase_of
from fedgrove.node.protocol.judgements import check_judgement, consequences
from fedgrove.node.protocol.rounds import Member, RoundRecords, Rounds

_FOUNDING = (RegistryFounded, LedgerFounded)
_LONG = 1 << 16  # blocks after which a member may skip a round that waits for its quorum
_HASHES_KEPT = 256  # blocks whose hash every chain has at hand
_NOTHING = bytes(32)
_ENDINGS = {kind.ENDS: kind for kind in KINDS if issubclass(kind, PhaseEnd)}
"""By the record that each leaves in a phase, the record that everybody has."""


@dataclass
class Law:
    """Checks each record against all records before it. Call ``check`` before the record is added to ``rounds``.

    Attributes
    ----------
    facts : ChainFacts
    rounds : Rounds
        All records before.
    """

    facts: ChainFacts
    rounds: Rounds
    _founded: list[FoundingRecord] = field(default_factory=list)
    _expected: deque[Record] = field(default_factory=deque)
    _vrf_keys: set[tuple[int, int]] = field(default_factory=set)
    _approved: set[str] = field(default_factory=set)
    _placed: dict[str, int] = field(default_factory=dict)
    _changed_at: int = 0

    def check(self, record: Record) -> None:
        """Raise RuleBroken if the record breaks a rule."""
        # (1) what the record before brings with it comes next, and comes in no other way
        if self._expected:
            self._check_expected(record)
            return
        # (2) both contracts were founded, once each
        self._check_founding(record)
        # (3) its own rule; a kind of record without one is not lawful
        match record:
            case FoundingRecord():
                pass  # checked above
            case AccountRecord():
                self._by_account(record)
            case AdminRecord():
                self._by_admin(record)
            case RoundOpened():
                self._opened(record)
            case Judged():
                self._check_author(record)
                check_judgement(record, self.rounds, self.facts.settings)
                self._expected.extend(consequences(record, self.rounds, self.facts.settings))
            case Released():
                self._released(record)
            case RoundRecord():
                self._within_round(record)
            case _:
                raise bad(record.FIELD, "no rule allows this record")

    # --- who may act ------------------------------------------------------------------------------------------------

    def barred_from(self, number: int, block: int) -> list[str]:
        """Accounts that the opening of a round in this block may list: who may not draw, and who is idle."""
        idle, limit = self.facts.deployment.terms.rate_of(number) == tree.EVERYONE, self.facts.settings.absence_limit
        members = self.rounds.members.values()
        return [each.account for each in members if each.bar(block) or (idle and self.rounds.is_idle(each, limit))]

    def barred(self, member: Member, current: RoundRecords) -> str:
        """Why the ledger takes no draw of a member in a round, in one clause; empty when it does."""
        if member.account in current.opened.barred:
            return "the client was idle when the round opened"
        return member.bar(current.opened.opened_at)

    def is_active(self, account: str, block: int) -> bool:
        """Whether an account is a member's that may act for the coordinator in a block."""
        member = self.rounds.member(account)
        if member is None or account in self.rounds.struck:
            return False
        return member.approved and not member.left and member.active_from <= block

    def members_changed_since(self, block: int) -> bool:
        """Whether a member came, left, changed its key or its approval in this block or later."""
        return self._changed_at >= block

    def is_struck(self, account: str) -> bool:
        """Whether a closing of the account was replaced or voided."""
        return account in self.rounds.struck

    def grace(self) -> int:
        """Blocks in which the coordinator may act alone: fewer once a closing of its own fell."""
        grace = self.facts.settings.coordinator_grace
        return grace // 4 if self.facts.deployment.coordinator in self.rounds.struck else grace

    def closing_lot(self, current: RoundRecords, account: str) -> int:
        """Blocks behind the grace that an account leaves to others before it may close a round that it committed in."""
        if account == self.facts.deployment.coordinator:
            return 0
        lot = keccak(current.sealing.order_root + to_canonical_address(account).rjust(32, b"\0"))
        return int.from_bytes(lot, "big") % (self.facts.settings.coordinator_grace + 1)

    def is_hopeless(self, current: RoundRecords, block: int) -> bool:
        """Whether too few are left for a closing in a block: fewer than the quorum, or no more than half of the drawn.

        Those who committed count; in a round with bounds, once the vouchers are over, those who vouched.
        """
        left = left_for_sum(current, self._ends(current), block)
        return left < self.facts.settings.quorum or 2 * left <= len(current.draws)

    def _check_author(self, record: MemberRecord) -> Member:
        """The member that a record names; RuleBroken if it is none, or did not sign it."""
        member = self.rounds.members.get(record.client)
        if member is None:
            raise bad(f"{record.FIELD}.client", "the client is not registered", record.round, record.client)
        if record.at.author != member.account:
            reason = f"it is signed by {record.at.author}, not by the client"
            raise bad(f"{record.FIELD}.author", reason, record.round, record.client)
        return member

    def _check_coordinator(self, record: RoundRecord, since: int, more: int = 0) -> bool:
        """Whether it is the coordinator's; RuleBroken for others within its grace and ``more`` after ``since``."""
        author = record.at.author
        if author in self.rounds.struck:
            raise bad(f"{record.FIELD}.author", f"a closing of {author} was replaced or voided", record.round)
        if author == self.facts.deployment.coordinator:
            return True
        if record.at.block <= since + more + self.grace():
            raise bad(f"{record.FIELD}.author", f"{author} acted within the coordinator's grace", record.round)
        return False

    def _check_coordinator_or_member(self, record: RoundRecord, since: int) -> bool:
        """The same; of the others only an active member."""
        is_coordinator = self._check_coordinator(record, since)
        if not is_coordinator and not self.is_active(record.at.author, record.at.block):
            reason = f"{record.at.author} is neither the coordinator nor an active member"
            raise bad(f"{record.FIELD}.author", reason, record.round)
        return is_coordinator

    # --- founding, and what must come next --------------------------------------------------------------------------

    def _check_founding(self, record: Record) -> None:
        """The registry comes first, with the members that it names, then the ledger; the quick may join in between."""
        if isinstance(record, FoundingRecord):
            if len(self._founded) == len(_FOUNDING) or type(record) is not _FOUNDING[len(self._founded)]:
                raise bad("founding", "the registry and the ledger were not founded once each, in this order")
            self._founded.append(record)
            if isinstance(record, RegistryFounded):
                named = dict.fromkeys(self.facts.deployment.members)
                self._approved.update(named)
                self._expected.extend(Approved(record.at, account, 0) for account in named)
        elif len(self._founded) < (1 if isinstance(record, AccountRecord | AdminRecord) else len(_FOUNDING)):
            raise bad("founding", "the records do not begin with the founding of the registry and the ledger")

    def check_end(self) -> None:
        """Raise RuleBroken if the last record brings another with it, and the history ends before that."""
        if self._expected:
            why = f"the history ends without the record {self._expected[0].TITLE!r} that follows from its last one"
            raise self._missing(self._expected[0], why)

    def _check_expected(self, record: Record) -> None:
        expected = self._expected.popleft()
        if replace(record, at=expected.at) == expected and record.at.transaction == expected.at.transaction:
            return
        why = f"here should be the record {expected.TITLE!r} that follows from the one before, and there is another"
        raise self._missing(expected, why)

    @staticmethod
    def _missing(expected: Record, why: str) -> RuleBroken:
        return bad(expected.FIELD, why, expected.round if isinstance(expected, RoundRecord) else None)

    # --- members ----------------------------------------------------------------------------------------------------

    def _by_account(self, record: AccountRecord) -> None:
        member = self.rounds.members.get(record.client)
        if isinstance(record, Registered):
            self._registered(record)
        elif member is None or member.account != record.account:
            raise bad(record.FIELD, f"account {record.account} is not client {record.client}", client=record.client)
        match record:
            case Registered() | VrfKeyRotated():
                self._check_delay(record)
                self._vrf_key(record)
            case Resumed():
                self._check_delay(record)
            case MailboxKeyRotated():
                _check_mailbox(record)
            case Withdrawn():
                pass  # a member may at any time
            case _:
                raise bad(record.FIELD, "no rule allows this record", client=record.client)
        leaves = isinstance(record, Withdrawn) and not record.points
        if leaves or isinstance(record, Registered | VrfKeyRotated | Resumed):
            self._members_changed(record.at.block, member)

    def _registered(self, record: Registered) -> None:
        expected = len(self.rounds.members) + 1
        if record.client != expected or self.rounds.member(record.account) is not None:
            raise bad("registration.index", f"index {record.client} is not the next one", client=record.client)
        if self.facts.deployment.membership != "open" and record.account not in self._approved:
            raise bad("registration.account", f"account {record.account} was not approved", client=record.client)
        _check_mailbox(record)

    def _check_delay(self, record: Registered | VrfKeyRotated | Resumed) -> None:
        if record.active_from != record.at.block + self.facts.deployment.activation_delay:
            reason = f"{record.active_from} is not the delay after it"
            raise bad(f"{record.FIELD}.active from", reason, client=record.client)

    def _vrf_key(self, record: Registered | VrfKeyRotated) -> None:
        if (record.vrf_x, record.vrf_y) in self._vrf_keys:
            raise bad(f"{record.FIELD}.vrf key", "the key is already registered", client=record.client)
        alpha = tree.registration_alpha(self.facts.deployment.chain_id, self.facts.deployment.registry, record.account)
        _check_proof(record, record, alpha)
        self._vrf_keys.add((record.vrf_x, record.vrf_y))

    def _by_admin(self, record: AdminRecord) -> None:
        author, deployment = record.at.author, self.facts.deployment
        if deployment.membership == "open":
            raise bad(record.FIELD, "membership is open to all")
        by_founder = deployment.membership == "named" and isinstance(record, Approved) and not self.rounds.rounds
        entitled = deployment.founder if by_founder else deployment.admin
        if author != entitled or (deployment.membership == "named" and not by_founder):
            raise bad(record.FIELD, f"it is signed by {author}, who may not say who takes part")
        member = self.rounds.member(record.account)
        match record:
            case Approved():
                self._check_approval(record, member)
                self._approved.add(record.account)
            case Revoked():
                if record.account not in self._approved:
                    raise bad(record.FIELD, f"account {record.account} was not approved")
                self._approved.remove(record.account)
            case _:
                raise bad(record.FIELD, "no rule allows this record")
        if member is not None:
            self._members_changed(record.at.block, replace(member, approved=True))

    def _check_approval(self, record: Approved, member: Member | None) -> None:
        """After the delay, like a registration; at once where it takes back a revocation that has not acted yet."""
        if record.account in self._approved:
            raise bad(record.FIELD, f"account {record.account} was approved before")
        active_from = 0
        if member is not None:
            opened_at = self.rounds.latest.opened.opened_at if self.rounds.latest else 0
            acted = member.revoked_at == 0 or member.revoked_at < opened_at
            active_from = record.at.block + self.facts.deployment.activation_delay if acted else member.active_from
        if record.active_from != active_from:
            raise bad(f"{record.FIELD}.active from", f"it should be {active_from}, not {record.active_from}")

    def _members_changed(self, block: int, member: Member | None) -> None:
        """With its block, members get a reason to skip a round that waits for its quorum."""
        if member is None or (member.approved and not member.left):
            self._changed_at = block

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
            since, _ = coordinator_turn(latest, self._ends(latest), self.facts.settings)
            self._check_coordinator_or_member(record, since)
        closed, failed = self.rounds.closed, self.rounds.failed
        if closed >= terms.rounds or failed > terms.repeats:
            raise bad("opened", f"{closed} of {terms.rounds} rounds had closed, {failed} had failed", number)
        if record.model_digest != (self.rounds.model_digest if latest else bytes.fromhex(terms.model)):
            raise bad("opened.model", "it is not the model in force after the previous round", number)
        if record.config_digest.hex() != terms.config:
            raise bad("opened.config", "it is not the configuration that the ledger was deployed with", number)
        if record.opened_at != record.at.block:
            raise bad("opened.block", f"{record.opened_at} is not the block of the record", number)
        if record.seed_block != record.opened_at + self.facts.settings.seed_delay:
            raise bad("opened.seed block", "it is not the seed delay after the opening", number)
        if record.sampling_rate != terms.rate_of(number):
            raise bad("opened.sampling rate", "it is not the rate of the federation's terms", number)
        places = [int(account, 16) for account in record.barred]
        if sorted(set(places)) != places or not set(record.barred) <= set(self.barred_from(number, record.opened_at)):
            raise bad("opened.barred", "it lists accounts that may draw, or out of order", number)
        self._placed.clear()

    def _within_round(self, record: RoundRecord) -> None:
        number, current = record.round, self.rounds.latest
        if current is None or current.number != number:
            raise bad(record.FIELD, "the round was not open", number)
        if current.end is not None:
            raise bad(record.FIELD, "the round had ended", number)
        deadlines = self._ends(current)
        match record:
            case SeedFixed():
                self._seed(record, current, deadlines)
            case Drawn():
                self._drawn(record, current, deadlines)
            case DrawRejected():
                self._rejected(record, current, deadlines)
            case SealChunk():
                self._chunk(record, current, deadlines)
            case Sealed():
                self._sealed(record, current, deadlines)
            case Revealed():
                self._check_author(record)
                check_reveal(record, current, deadlines, self.facts.settings)
                check_sketch(record, current, deadlines, self.facts)
            case MemberRecord(AFTER=type() as after):
                self._by_member(record, current.of(after), current, deadlines)
                if isinstance(record, Vouched | Affirmed):
                    check_sketch(record, current, deadlines, self.facts)
            case Closed():
                self._closed(record, current, deadlines)
            case Skipped():
                self._skipped(record, current, deadlines)
            case Failed():
                self._failed(record, current, deadlines)
            case _:
                raise bad(record.FIELD, "no rule allows this record", number)

    def _ends(self, current: RoundRecords) -> Deadlines:
        return current.deadlines(self.facts.settings)

    def _seed(self, record: SeedFixed, current: RoundRecords, deadlines: Deadlines) -> None:
        if current.seed is not None or phase_of(current, deadlines, record.at.block) is not Phase.DRAW:
            raise bad("seed", "fixed twice, or outside the draw window", record.round)
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
        bar = self.barred(member, current)
        if bar:
            raise bad("draw.client", bar, number, client)
        if not 0 < record.samples <= self.facts.settings.max_samples:
            raise bad("draw.samples", f"{record.samples} samples", number, client)
        beta = _check_proof(record, member, tree.draw_alpha(*self.facts.place, number, current.seed.seed))
        if not tree.is_drawn(beta, current.opened.sampling_rate):
            raise bad("draw.proof", "the client's output is above the sampling threshold", number, client)
        self._announce_end(record, current, self._last_draw(record, current))

    def _last_draw(self, record: Drawn, current: RoundRecords) -> int:
        """At how many draws the phase ends: when all have drawn who may, after the window with the quorum; 0: never."""
        settings = self.facts.settings
        awaited, late = current.awaited(settings.max_clients), record.at.block > draw_window_end(current, settings)
        return min(awaited, settings.quorum) if late else awaited

    def _rejected(self, record: DrawRejected, current: RoundRecords, deadlines: Deadlines) -> None:
        """With the seed, while draws are taken; an item of the batch before may have been the last of them."""
        ended = current.draw_end is not None and current.draw_end.at.transaction == record.at.transaction
        if current.seed is None or not (ended or phase_of(current, deadlines, record.at.block) is Phase.DRAW):
            raise bad("draw.block", f"block {record.at.block} is outside the draw window", record.round)

    def _sealable(self, record: Sealed | SealChunk, current: RoundRecords, deadlines: Deadlines) -> None:
        """Whether the chain still knows the order's block depends on the chain, so it is not asked here."""
        in_time = phase_of(current, deadlines, record.at.block) is Phase.SEAL
        if not in_time or record.at.block <= deadlines.order_block:
            raise bad("order", "sealed twice or outside its window", record.round)
        if len(current.draws) < self.facts.settings.quorum:
            raise bad("order.count", f"{len(current.draws)} drew, fewer than the quorum", record.round)

    def _chunk(self, record: SealChunk, current: RoundRecords, deadlines: Deadlines) -> None:
        """Each sender places an order of its own piece by piece; the piece that completes it seals the round."""
        self._sealable(record, current, deadlines)
        before, drawn = self._placed.get(record.at.author, 0), len(current.draws)
        if not before < record.placed <= drawn:
            reason = f"{record.placed} placed of {drawn} that drew, and {before} before"
            raise bad("order.count", reason, record.round)
        self._placed[record.at.author] = record.placed
        if record.placed == drawn:
            seed = self._order_seed(current, deadlines)
            self._expected.append(Sealed(record.at, record.round, drawn, seed, _order_root(current, seed)))

    def _sealed(self, record: Sealed, current: RoundRecords, deadlines: Deadlines) -> None:
        self._sealable(record, current, deadlines)
        if record.drawn != len(current.draws):
            raise bad("order.count", f"{record.drawn} sealed, {len(current.draws)} drew", record.round)
        if record.order_seed != self._order_seed(current, deadlines):
            raise bad("order.seed", f"it does not follow from block {deadlines.order_block}", record.round)
        if record.order_root != _order_root(current, record.order_seed):
            raise bad("order.root", "it is not the root over the tickets in their order", record.round)

    def _order_seed(self, current: RoundRecords, deadlines: Deadlines) -> bytes:
        source = self.facts.randomness if self.facts.settings.randao else self.facts.block_hash
        return tree.order_seed(*self.facts.place, current.number, source(deadlines.order_block))

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
            self._expected.append(ending(record.at, record.round))

    def _released(self, record: Released) -> None:
        """In the window of the recovery, closed or not; a member that drew in a later round is too late."""
        number, client, latest = record.round, record.client, self.rounds.latest
        current = self.rounds.rounds.get(number)
        if current is None or latest is None or current.sealed is None or not (current.end is None or current.stands):
            raise bad(record.FIELD, "the round was not one in which shares are released", number, client)
        self._check_author(record)
        ends, block = self._ends(current), record.at.block
        if not ends.affirm_end < block <= (ends.close_end if current.end is None else ends.recover_end):
            raise bad(f"{record.FIELD}.block", f"block {block} is outside its window", number, client)
        later = any(client in each.draws for at, each in self.rounds.rounds.items() if at > number)
        if client not in current.draws or later:
            raise bad(record.FIELD, "the client did not draw in the round, or drew later", number, client)
        check_stage(record, current, self.facts.settings)
        check_sketch(record, current, ends, self.facts)

    # --- how a round ends -------------------------------------------------------------------------------------------

    def _closed(self, record: Closed, current: RoundRecords, deadlines: Deadlines) -> None:
        number, author = record.round, record.at.author
        block = record.at.block
        if phase_of(current, deadlines, block) is not Phase.RECOVER or self.is_hopeless(current, block):
            raise bad("closed", "outside its window, or too few had committed or vouched", number)
        if len(current.releases) < self.facts.settings.releases:
            raise bad("closed", f"only {len(current.releases)} clients had released shares", number)
        if record.model_digest == _NOTHING or record.metrics_digest == _NOTHING:
            raise bad("closed", "it names no model, or no metrics", number)
        if not self._check_coordinator(record, deadlines.affirm_end, self.closing_lot(current, author)):
            member = self.rounds.member(author)
            if member is None or member.client not in current.commits:
                raise bad("closed.author", f"{author} is neither the coordinator nor committed", number)

    def _skipped(self, record: Skipped, current: RoundRecords, deadlines: Deadlines) -> None:
        number, drawn, block = record.round, len(current.draws), record.at.block
        window_end = draw_window_end(current, self.facts.settings)
        if drawn >= self.facts.settings.quorum or block <= window_end:
            raise bad("skipped", f"{drawn} clients had drawn", number)
        if record.drawn != drawn:
            raise bad("skipped.count", f"{record.drawn} recorded, {drawn} drew", number)
        if not self._check_coordinator_or_member(record, window_end) and current.draws_all:
            opened_at = current.opened.opened_at
            lost = current.seed is None and block - deadlines.seed_block > _HASHES_KEPT
            if not (self._changed_at >= opened_at or block - opened_at >= _LONG or lost):
                raise bad("skipped.author", "a member skipped it, though nothing had changed since it opened", number)

    def _failed(self, record: Failed, current: RoundRecords, deadlines: Deadlines) -> None:
        """Anybody may say so."""
        phase = phase_of(current, deadlines, record.at.block)
        summed = phase in (Phase.VOUCH, Phase.AFFIRM, Phase.RECOVER)
        if phase is not Phase.OVERDUE and not (summed and self.is_hopeless(current, record.at.block)):
            reason = "it was not overdue, and enough clients had committed and, where they must, vouched"
            raise bad("failed", reason, record.round)


def _check_mailbox(record: Registered | MailboxKeyRotated) -> None:
    if record.mailbox_key == _NOTHING:
        raise bad(f"{record.FIELD}.mailbox key", "it is zero", client=record.client)


def _order_root(current: RoundRecords, seed: bytes) -> bytes:
    return tree.order_root(tree.order(current.tickets, seed))


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
