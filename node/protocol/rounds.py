"""The records of the ledger, sorted by round: what every role reads before it acts.

Pure functions of the records; whoever has the same ledger sees the same rounds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Generic, TypeVar, cast

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.records import (
    Affirmed,
    AffirmEnded,
    Approved,
    Closed,
    CommitEnded,
    Committed,
    DrawEnded,
    Drawn,
    Failed,
    Judged,
    MailboxKeyRotated,
    MemberRecord,
    Phase,
    Record,
    Registered,
    Released,
    Replaced,
    Resumed,
    Revealed,
    Revoked,
    RoundOpened,
    RoundRecord,
    Sealed,
    SeedFixed,
    Shared,
    ShareEnded,
    Skipped,
    Voided,
    Vouched,
    VouchEnded,
    VrfKeyRotated,
    Withdrawn,
)
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.chain.records.phases import Deadlines, Ends
from fedgrove.node.masking.context import Participant, RoundContext
from fedgrove.node.masking.graph import MIN_CLIENTS, Group, MaskGraph, build_graph
from fedgrove.node.masking.parameters import Sharing, partners_of_all, sharing
from fedgrove.node.protocol.terms import MaskingSettings

MOST_DOUBLINGS = 10
_MOST_PAUSES = 7

_Found = TypeVar("_Found")
_Once = TypeVar("_Once", bound=RoundRecord)
_ByMember = TypeVar("_ByMember", bound=MemberRecord)


@dataclass(frozen=True)
class Member:
    """A registered client as the ledger shows it now (VRF public key as affine coordinates).

    ``registered_at`` is the block of its registration, ``revoked_at`` that in which its approval ended last; 0 if it
    never did. A revocation acts from the next round on.
    """

    client: int
    account: str
    vrf_x: int
    vrf_y: int
    mailbox_key: bytes
    active_from: int
    registered_at: int = 0
    approved: bool = True
    revoked_at: int = 0
    left: bool = False

    def bar(self, opened_at: int) -> str:
        """Why it may not draw in a round that was opened in a block, in one clause; empty if it may."""
        if self.active_from > opened_at:
            return "the client was not active yet"
        if not self.approved and self.revoked_at < opened_at:
            return "the client was not approved"
        return "the client had withdrawn all its data" if self.left else ""


@dataclass(frozen=True)
class _Each(Generic[_ByMember]):
    """What members left of one kind in a round, by client."""

    kind: type[_ByMember]

    def __get__(self, current: "RoundRecords", owner: object) -> dict[int, _ByMember]:
        return current.of(self.kind)


@dataclass(frozen=True)
class _Known(Generic[_Once]):
    """A round's record of one kind, or None."""

    kind: type[_Once]

    def __get__(self, current: "RoundRecords", owner: object) -> _Once | None:
        return current.get(self.kind)


@dataclass(frozen=True)
class _Required(Generic[_Once]):
    """A round's record of one kind; AttributeError, with the reason, if there is none."""

    kind: type[_Once]
    why: str

    def __get__(self, current: "RoundRecords", owner: object) -> _Once:
        return _there(current.get(self.kind), f"round {current.number} {self.why}")


@dataclass
class RoundRecords:
    """Everything the ledger says of one round.

    A record goes to ``by_member``, by its kind and its client in order of arrival, where members leave one each, and to
    ``once``, by its kind, where it is the round's; ``judged`` has what members said of it, by what they were asked,
    ``reveals`` what each revealed, and ``further`` what they released after the first stage, by stage and client. The
    attributes name those that the protocol speaks of.

    ``able`` are the clients that might draw when the round was opened, ``known`` all that were members then, active and
    idle or not; ``registered`` counts all that there were. ``apart``: rounds before it were spoilt, so it is
    not summed as a whole (``node.protocol.cells``).
    ``draw_end``, ``share_end``, ``commit_end``, ``vouch_end`` and ``affirm_end`` are there when nobody was missing in
    the phase. ``order`` holds the
    client indices along the leaves of the cooperation tree, once the round is sealed. A closed round that its members
    voided keeps its end and is ``voided``, too; a round that was running on a model that fell ends with that.
    """

    opened: RoundOpened
    able: tuple[int, ...] = ()
    registered: int = 0
    known: tuple[int, ...] = ()
    apart: bool = False
    once: dict[type[RoundRecord], RoundRecord] = field(default_factory=dict)
    by_member: dict[type[MemberRecord], dict[int, MemberRecord]] = field(default_factory=dict)
    judged: dict[Phase, dict[int, Judged]] = field(default_factory=dict)
    reveals: dict[int, list[Revealed]] = field(default_factory=dict)
    further: dict[int, dict[int, Released]] = field(default_factory=dict)
    end: Closed | Skipped | Failed | Voided | None = None
    order: tuple[int, ...] = ()

    def add(self, record: RoundRecord) -> None:
        """Place the round's next record."""
        if isinstance(record, Judged):
            self.judgements(record.asked)[record.client] = record
        elif isinstance(record, Revealed):
            self.reveals.setdefault(record.client, []).append(record)
        elif isinstance(record, Released):
            self.releases_in(record.stage)[record.client] = record
        elif isinstance(record, MemberRecord):
            self.of(type(record))[record.client] = record
        else:
            self.once[type(record)] = record
        match record:
            case Sealed():
                ordered = tree.order(self.tickets, record.order_seed)
                self.order = tuple(tree.client_of(ticket) for ticket in ordered)
            case Closed() | Skipped() | Failed() | Voided():
                self.end = self.end or record

    def of(self, kind: type[_ByMember]) -> dict[int, _ByMember]:
        """What members left of one kind, by client."""
        return cast("dict[int, _ByMember]", self.by_member.setdefault(kind, {}))

    def of_members(self) -> Iterator[MemberRecord]:
        """All that members left in the round, except for their judgements."""
        for by_client in (*self.by_member.values(), *self.further.values()):
            yield from by_client.values()
        for revealed in self.reveals.values():
            yield from revealed

    def releases_in(self, stage: int) -> dict[int, Released]:
        """Whose shares were released in a stage, by client."""
        return self.of(Released) if stage == 0 else self.further.setdefault(stage, {})

    @property
    def stage(self) -> int:
        """The latest stage in which shares were released, 0 for the first."""
        return max((stage for stage, found in self.further.items() if found), default=0)

    @property
    def sketch_hash(self) -> bytes:
        """Hash of the block that the sketch follows from; zeros until somebody vouched."""
        return next((each.block_hash for each in self.vouches.values()), bytes(32))

    def judgements(self, asked: Phase) -> dict[int, Judged]:
        """What members said of the round when they were asked before (RECOVER) or after (CLOSED) its closing."""
        return self.judged.setdefault(asked, {})

    def get(self, kind: type[_Once]) -> _Once | None:
        """The round's record of one kind, or None; the last one where the ledger takes several."""
        return cast("_Once | None", self.once.get(kind))

    draws = _Each(Drawn)
    shares = _Each(Shared)
    commits = _Each(Committed)
    vouches = _Each(Vouched)
    affirmations = _Each(Affirmed)
    releases = _Each(Released)

    seed = _Known(SeedFixed)
    draw_end = _Known(DrawEnded)
    sealed = _Known(Sealed)
    share_end = _Known(ShareEnded)
    commit_end = _Known(CommitEnded)
    vouch_end = _Known(VouchEnded)
    affirm_end = _Known(AffirmEnded)
    replaced = _Known(Replaced)
    voided = _Known(Voided)

    # For where the rules of the ledger say that the record is there; AttributeError if it is not.
    fixed_seed = _Required(SeedFixed, "has no seed yet")
    sealing = _Required(Sealed, "is not sealed")

    @property
    def number(self) -> int:
        return self.opened.round

    @property
    def members(self) -> int:
        """K: how many might draw."""
        return len(self.able)

    @property
    def stands(self) -> bool:
        """The round closed, and its members did not void that."""
        return isinstance(self.end, Closed) and self.voided is None

    def deadlines(self, settings: LedgerSettings) -> Deadlines:
        """The ends of its phases, with these windows where they are not on record."""
        ends = (self.draw_end, self.sealed, self.share_end, self.commit_end, self.vouch_end, self.affirm_end)
        stage_at = min((each.at.block for each in self.further.get(self.stage, {}).values()), default=0)
        recorded = Ends(*(end.at.block if end is not None else 0 for end in ends), stage=stage_at)
        drawing = self.sealed is None and self.end is None
        waits = drawing and self.draws_all and len(self.draws) < settings.quorum
        return Deadlines.of(self.opened.opened_at, settings, recorded, waits, len(self.releases))

    @property
    def draws_all(self) -> bool:
        """Every member may draw in the round, not a sample of them."""
        return self.opened.sampling_rate == tree.EVERYONE

    def awaited(self, max_clients: int) -> int:
        """How many draws end the draw phase: those of all who may; 0 where nobody can know who is in the sample."""
        return min(self.registered - len(self.opened.barred), max_clients) if self.draws_all else 0

    @property
    def ending(self) -> Closed | Skipped | Failed | Voided:
        """How the round ended; AttributeError if it has not."""
        return _there(self.end, f"round {self.number} has not ended")

    @property
    def closing(self) -> Closed:
        """How the round closed, also if it was voided later; AttributeError if it has not."""
        return _there(self.end if isinstance(self.end, Closed) else None, f"round {self.number} has not closed")

    @property
    def result(self) -> Closed | Replaced:
        """What the round came to: what its members put in the place of its closing, or else that; AttributeError."""
        return self.replaced or self.closing

    def is_spoilt(self, quorum: int) -> bool:
        """Whether enough committed for a closing, and none stands: somebody spoilt it, as far as the ledger tells."""
        committed = len(self.commits)
        if self.sealed is None or self.stands or committed < quorum or 2 * committed <= len(self.order):
            return False
        return isinstance(self.end, Failed | Closed)

    def overruled(self, client: int) -> bool:
        """Whether a client judges that the closed round has another result than the one that stands."""
        own, stands = self.judgements(Phase.CLOSED).get(client), self.result
        said = own and (own.model_digest, own.metrics_digest)
        return own is not None and said != (stands.model_digest, stands.metrics_digest)

    def was_wrong(self, client: int) -> bool:
        """Whether a client judged the round's closing otherwise than it came out."""
        own = self.judgements(Phase.CLOSED).get(client)
        if own is None or not isinstance(self.end, Closed):
            return False
        return any(own.model_digest) if self.voided is not None else self.overruled(client)

    @property
    def tickets(self) -> list[int]:
        """Tickets in the order of the draws."""
        return [tree.ticket(vrf.proof_to_hash(draw.proof), draw.client) for draw in self.draws.values()]

    def positions(self, clients: Iterable[int]) -> tuple[int, ...]:
        """Leaf positions of these clients, ascending."""
        place = {client: position for position, client in enumerate(self.order)}
        return tuple(sorted(place[client] for client in clients))

    def graph(
        self,
        chain_id: int,
        ledger: str,
        masking: MaskingSettings,
        groups: Sequence[Group] = (),
        least: int = MIN_CLIENTS,
    ) -> MaskGraph:
        """The mask graph of the sealed round: who masks with whom, who holds whose shares.

        ``groups`` are those who are summed apart, each group with a tree of its own; empty: all are summed together,
        if ``least`` survive.
        """
        participants = tuple(
            Participant(position, client, draw.samples, draw.mask_key, draw.seal_key)
            for position, client in enumerate(self.order)
            for draw in (self.draws[client],)
        )
        n = len(participants)
        return build_graph(
            RoundContext(chain_id, ledger, self.number),
            participants,
            _partners(n, [group.positions for group in groups] or [tuple(range(n))]),
            mode=masking.mode,
            degree=partners_of_all(n, masking.assumed),
            shares=shares_of_round(n, masking),
            seed=self.sealing.order_seed,
            groups=groups,
            least=least,
        )


@dataclass
class Rounds:
    """The whole ledger, sorted: members by client index, rounds by number, withdrawals. Grows by ``add``.

    ``quorum`` is that of the ledger's settings; ``struck`` are accounts whose closing was replaced or voided.
    """

    quorum: int = 1
    members: dict[int, Member] = field(default_factory=dict)
    rounds: dict[int, RoundRecords] = field(default_factory=dict)
    withdrawals: list[Withdrawn] = field(default_factory=list)
    struck: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, records: Iterable[Record], settings: LedgerSettings) -> "Rounds":
        """Records of a ledger with these settings, in the order of the chain, sorted."""
        rounds = cls(settings.quorum)
        for record in records:
            rounds.add(record)
        return rounds

    @property
    def latest(self) -> RoundRecords | None:
        return self.rounds[max(self.rounds)] if self.rounds else None

    @property
    def last(self) -> RoundRecords:
        """The latest round, where there is one; AttributeError if there is not."""
        return _there(self.latest, "no round has been opened")

    def member(self, account: str) -> Member | None:
        """The member with this account, or None."""
        return next((member for member in self.members.values() if member.account == account), None)

    def ended(self) -> list[RoundRecords]:
        return [each for each in self.rounds.values() if each.end is not None]

    @property
    def closed(self) -> int:
        """Number of closed rounds that were not voided."""
        return sum(each.stands for each in self.rounds.values())

    def closed_before(self, number: int) -> int:
        """The same, of the rounds before this one."""
        return sum(each.stands for each in self.rounds.values() if each.number < number)

    def all_held(self, rounds: int, repeats: int) -> bool:
        """Whether no round can follow: ``rounds`` have closed, or more than ``repeats`` sealed ones have failed."""
        latest = self.latest
        if latest is None or latest.end is None:
            return False
        return self.closed >= rounds or self.failed > repeats

    @property
    def failed(self) -> int:
        """Number of sealed rounds that failed."""
        return sum(isinstance(each.end, Failed) and each.sealed is not None for each in self.rounds.values())

    @property
    def in_vain(self) -> int:
        """How many rounds have failed or were skipped since the last one that stands."""
        later = takewhile(lambda each: not each.stands, reversed(self.rounds.values()))
        return sum(isinstance(each.end, Failed | Skipped) for each in later)

    def pause(self, draw_window: int) -> int:
        """Blocks to wait before the next round is opened: they double with each further one in vain.

        So a member that is away for a while, or whose machine hangs, does not use up the federation's repeats.
        """
        again = self.in_vain - 2
        return draw_window * 2 ** min(again, _MOST_PAUSES) if again >= 0 else 0

    def doubts(self, current: RoundRecords) -> int:
        """How many members judge that a closed round has another result, of those that were never wrong so far."""
        against = [client for client in current.judgements(Phase.CLOSED) if current.overruled(client)]
        earlier = [each for each in self.rounds.values() if each.number < current.number]
        return sum(not any(each.was_wrong(client) for each in earlier) for client in against)

    @property
    def base(self) -> RoundRecords | None:
        """The round that produced the model in force; None before the first."""
        return next((each for each in reversed(self.rounds.values()) if each.stands), None)

    def base_of(self, number: int) -> RoundRecords | None:
        """The round whose closing left the model that a round trains from; None for the first."""
        before = (each for each in reversed(self.rounds.values()) if each.number < number)
        return next((each for each in before if each.stands), None)

    def base_before(self, number: int) -> RoundRecords:
        """``base_of`` a round that is known to have one; AttributeError if it has not."""
        return _there(self.base_of(number), f"no round before round {number} closed")

    def root_before(self, number: int) -> bytes:
        """Order root of the last sealed round before this one; 32 zero bytes where there is none."""
        sealed = (each.sealed for each in reversed(self.rounds.values()) if each.sealed and each.number < number)
        last = next(sealed, None)
        return last.order_root if last is not None else bytes(32)

    def refused_by(self, client: int) -> RoundRecords | None:
        """The first round that stands though a client judges that it has another result, or None."""
        return next((each for each in self.rounds.values() if each.stands and each.overruled(client)), None)

    @property
    def model_digest(self) -> bytes:
        """Digest of the model in force; there must be a round."""
        base = self.base
        return base.result.model_digest if base else self.first_digest

    @property
    def first_digest(self) -> bytes:
        """Digest of the model that the first round began with; there must be a round."""
        return next(iter(self.rounds.values())).opened.model_digest

    def members_at(self, opened: RoundOpened) -> list[Member]:
        """The members that count in a round: who might draw in it when it was opened, and was not said to be idle."""
        return [
            each
            for each in self.members.values()
            if not each.bar(opened.opened_at) and each.account not in opened.barred
        ]

    def is_next_apart(self) -> bool:
        """Whether the next round is not summed as a whole: of 2ʲ rounds after the j-th one of all that was spoilt."""
        spoilt, left = 0, 0
        for each in self.rounds.values():
            if each.sealed is None:
                continue
            if each.apart:
                left -= 1
            elif each.is_spoilt(self.quorum):
                spoilt += 1
                left = 2 ** min(spoilt, MOST_DOUBLINGS)
        return left > 0

    def known_now(self) -> tuple[int, ...]:
        """Clients that are members now: registered, approved and not left."""
        return tuple(client for client, member in self.members.items() if member.approved and not member.left)

    def idle_since(self, limit: int) -> RoundRecords | None:
        """Of the sealed rounds of all members the last ``limit``-th: who drew in none from it on is idle. Or None."""
        full = [each for each in self.rounds.values() if each.sealed is not None and each.draws_all]
        return full[-limit] if len(full) >= limit else None

    def is_idle(self, member: Member, limit: int) -> bool:
        """Whether a member could draw in each of the last ``limit`` sealed rounds of all members, and drew in none."""
        since = self.idle_since(limit)
        if since is None or member.active_from > since.opened.opened_at:
            return False
        later = (each for number, each in self.rounds.items() if number >= since.number)
        return not any(member.client in each.draws for each in later)

    def left(self, client: int, through: int | None = None) -> bool:
        """Whether a member took back everything, for good (up to block ``through``)."""
        last = float("inf") if through is None else through
        return any(each.client == client and not each.points and each.at.block <= last for each in self.withdrawals)

    def add(self, record: Record) -> None:
        """Place the next record of the ledger; the contracts guarantee order and uniqueness."""
        match record:
            case RoundOpened():
                known = self.known_now()
                able = tuple(each.client for each in self.members_at(record))
                before = self.latest
                if before is not None:  # most rounds share their lists
                    known = before.known if known == before.known else known
                    able = before.able if able == before.able else able
                apart = self.is_next_apart()
                self.rounds[record.round] = RoundRecords(record, able, len(self.members), known, apart)
            case RoundRecord():
                current = self.rounds[record.round]
                current.add(record)
                if isinstance(record, Replaced | Voided) and isinstance(current.end, Closed):
                    self.struck.add(current.end.at.author)
            case Registered():
                self.members[record.client] = Member(
                    record.client,
                    record.account,
                    record.vrf_x,
                    record.vrf_y,
                    record.mailbox_key,
                    record.active_from,
                    registered_at=record.at.block,
                )
            case VrfKeyRotated(client=client, vrf_x=x, vrf_y=y, active_from=active_from):
                self.members[client] = replace(self.members[client], vrf_x=x, vrf_y=y, active_from=active_from)
            case Resumed(client=client, active_from=active_from):
                self.members[client] = replace(self.members[client], active_from=active_from)
            case MailboxKeyRotated(client=client, mailbox_key=key):
                self.members[client] = replace(self.members[client], mailbox_key=key)
            case Withdrawn(client=client):
                self.withdrawals.append(record)
                if not record.points:
                    self.members[client] = replace(self.members[client], left=True)
            case Approved() | Revoked():
                self._approval(record)

    def _approval(self, record: Approved | Revoked) -> None:
        member = self.member(record.account)
        if member is None:
            return  # whoever registers later was approved before
        if isinstance(record, Approved):
            change = {"approved": True, "active_from": record.active_from}
        else:
            change = {"approved": False, "revoked_at": record.at.block}
        self.members[member.client] = replace(member, **change)


def _there(found: _Found | None, why: str) -> _Found:
    if found is None:
        raise AttributeError(why)
    return found


def _partners(n: int, groups: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Partners of each position in the tree of its group."""
    found: list[tuple[int, ...]] = [()] * n
    for group in groups:
        for place, position in enumerate(group):
            found[position] = tuple(group[other] for other in tree.partners(place, len(group)))
    return tuple(found)


def shares_of_round(n: int, masking: MaskingSettings) -> Sharing:
    """Holders and threshold in a round of ``n`` clients; a fraction in the terms sets the latter."""
    needed, fraction = sharing(n, masking.assumed), masking.threshold
    return replace(needed, threshold=int(fraction * needed.holders) + 1) if fraction else needed
