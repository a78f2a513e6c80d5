"""The ledger's rules on its members: who is one, who may draw, who may act, and whose key a proof needs.

A client is active a delay after it registered. Where the federation's admin approves members, an approval acts after
the same delay, a revocation from the next round on. A member that was absent from too many rounds sits out.
"""

import functools
from dataclasses import dataclass, field

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.records import (
    AbsenceRecorded,
    Approved,
    Closed,
    Committed,
    Disputed,
    Drawn,
    Failed,
    MailboxKeyRotated,
    Record,
    Recovered,
    Registered,
    Released,
    Revoked,
    RoundOpened,
    Shared,
    VrfKeyRotated,
    Withdrawn,
)
from fedgrove.node.protocol.bad_record import bad
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.rounds import Member, RoundRecords, Rounds

_MOST_ABSENCES = 0xFFFF  # at which the registry's count stays


@dataclass
class MembershipRules:
    """Checks each record on members against all records before it.

    Attributes
    ----------
    facts : ChainFacts
    rounds : Rounds
        What the records before say.
    """

    facts: ChainFacts
    rounds: Rounds
    _vrf_keys: set[tuple[int, int]] = field(default_factory=set)
    _approved: dict[str, int] = field(default_factory=dict)
    _revoked: dict[str, tuple[int, int]] = field(default_factory=dict)
    _absences: dict[int, int] = field(default_factory=dict)
    _skipped_until: dict[int, int] = field(default_factory=dict)
    _to_be_absent: list[int] = field(default_factory=list)

    def check(self, record: Record) -> None:
        """Raise RuleBroken if a record of the registry breaks a rule."""
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
            case AbsenceRecorded():
                self._absence(record)
            case Revoked():
                # It acts from the next round on.
                self._by_admin(record, "revocation")
                self._revoked[record.account] = (record.at.block, self._approved.pop(record.account, record.at.block))

    def check_report(self, record: Record) -> None:
        """Raise RuleBroken if a report on absences had begun, and the record does not go on with it."""
        if self._to_be_absent and not isinstance(record, AbsenceRecorded):
            client = self._to_be_absent[0]
            raise bad("absence", "the client was left out of the report", self.rounds.ended()[-1].number, client)

    def check_author(self, record: Drawn | Shared | Committed | Released | Disputed, what: str) -> Member:
        """The member that a record names; RuleBroken if it is none, or did not sign it."""
        member = self.rounds.members.get(record.client)
        if member is None:
            raise bad(f"{what}.client", "the client is not registered", record.round, record.client)
        if record.at.author != member.account:
            reason = f"it is signed by {record.at.author}, not by the client"
            raise bad(f"{what}.author", reason, record.round, record.client)
        return member

    def check_coordinator(self, record: RoundOpened | Recovered | Closed | Failed, what: str, since: int) -> None:
        """Whether the author may do what is the coordinator's alone until its grace after block ``since`` is over."""
        author, block = record.at.author, record.at.block
        if author == self.facts.deployment.coordinator:
            return
        if block <= since + self.facts.settings.coordinator_grace:
            raise bad(f"{what}.author", f"{author} acted within the coordinator's grace", record.round)
        if not self.is_active(author, block):
            raise bad(f"{what}.author", f"{author} is neither the coordinator nor an active member", record.round)

    def check_proof(
        self, record: Registered | VrfKeyRotated | Drawn, alpha: bytes, what: str, number: int | None
    ) -> bytes:
        """The output of a record's VRF proof over ``alpha``; RuleBroken if it does not verify."""
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

    def barred_from(self, number: int, block: int) -> list[str]:
        """Accounts of registered clients that may not draw in a round of this number, opened up to this block."""
        members = self.rounds.members.values()
        return [member.account for member in members if self.why_barred(member, number, block)]

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

    def why_barred(self, member: Member, number: int, opened_at: int) -> str:
        """Why a member may not draw in a round, given the block of its opening; empty if it may."""
        if member.active_from > opened_at:
            return "the client was not active yet"
        if not self._approved_by(member, opened_at):
            return "the client was not approved"
        if self._skipped_until.get(member.client, 0) >= number:
            return "the client sits out because of its absences"
        return "the client had withdrawn all its data" if self.rounds.left(member.client) else ""

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
        self.check_proof(record, alpha, f"{what}.proof", None)
        self._vrf_keys.add((record.vrf_x, record.vrf_y))

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

    def _approved_by(self, member: Member, opened_at: int) -> bool:
        """Whether the member was approved, and for long enough, when a round was opened."""
        if self.facts.deployment.open_membership:
            return True
        account = member.account
        if account in self._approved:
            return self._approved[account] <= opened_at
        revoked, since = self._revoked.get(account, (-1, 0))
        return revoked >= opened_at >= since

    def _is_approved(self, account: str, block: int) -> bool:
        return self.facts.deployment.open_membership or self._approved.get(account, block + 1) <= block


@functools.lru_cache(maxsize=1 << 14)
def _verified(public_key: bytes, proof: bytes, alpha: bytes) -> bytes:
    """The output of a VRF proof; every role of a process reads the same ones."""
    return vrf.verify(public_key, proof, alpha)
