"""The records of the ledger, sorted by round: what every role reads before it acts.

Pure functions of the records; whoever has the same ledger sees the same rounds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from chain import tree, vrf
from chain.records import (
    AbsenceRecorded,
    Closed,
    Committed,
    Drawn,
    Failed,
    MailboxKeyRotated,
    Record,
    Recovered,
    Registered,
    Released,
    RoundOpened,
    Sealed,
    SeedFixed,
    Shared,
    Skipped,
    VrfKeyRotated,
)
from node.config import MaskingSettings
from node.masking.context import Participant, RoundContext
from node.masking.graph import MAX_HOLDERS, MaskGraph, build_graph


@dataclass(frozen=True)
class Member:
    """A registered client as the ledger shows it now (VRF public key as affine coordinates)."""

    client: int
    account: str
    vrf_x: int
    vrf_y: int
    mailbox_key: bytes
    active_from: int


@dataclass
class RoundRecords:
    """Everything the ledger says of one round; mappings are keyed by client index, in order of arrival.

    ``order`` holds the client indices along the leaves of the cooperation tree, once the round is sealed.
    """

    opened: RoundOpened
    seed: SeedFixed | None = None
    draws: dict[int, Drawn] = field(default_factory=dict)
    sealed: Sealed | None = None
    shares: dict[int, Shared] = field(default_factory=dict)
    commits: dict[int, Committed] = field(default_factory=dict)
    releases: dict[int, Released] = field(default_factory=dict)
    recovered: Recovered | None = None
    end: Closed | Skipped | Failed | None = None
    absences: set[int] = field(default_factory=set)
    order: tuple[int, ...] = ()

    @property
    def number(self) -> int:
        return self.opened.round

    @property
    def tickets(self) -> list[int]:
        """Tickets in the order of the draws (spec 01, cooperation tree)."""
        return [tree.ticket(vrf.proof_to_hash(draw.proof), draw.client) for draw in self.draws.values()]

    def positions(self, clients: Iterable[int]) -> tuple[int, ...]:
        """Leaf positions of these clients, ascending."""
        place = {client: position for position, client in enumerate(self.order)}
        return tuple(sorted(place[client] for client in clients))

    def graph(self, chain_id: int, ledger: str, masking: MaskingSettings) -> MaskGraph:
        """The mask graph of the sealed round: who masks with whom, who holds whose shares (spec 02)."""
        participants = tuple(
            Participant(position, client, draw.samples, draw.mask_key, draw.seal_key)
            for position, client in enumerate(self.order)
            for draw in (self.draws[client],)
        )
        n = len(participants)
        return build_graph(
            RoundContext(chain_id, ledger, self.number),
            participants,
            tuple(tree.partners(position, n) for position in range(n)),
            mode=masking.mode,
            extra_partners=masking.extra_partners,
            seed=self.seed.seed,
            threshold=_threshold(n, masking.threshold),
        )


@dataclass
class Rounds:
    """The whole ledger, sorted: members by client index, rounds by number. Grows by ``add``."""

    members: dict[int, Member] = field(default_factory=dict)
    rounds: dict[int, RoundRecords] = field(default_factory=dict)

    @property
    def latest(self) -> RoundRecords | None:
        return self.rounds[max(self.rounds)] if self.rounds else None

    def member(self, account: str) -> Member | None:
        """The member with this account, or None."""
        return next((member for member in self.members.values() if member.account == account), None)

    def ended(self) -> list[RoundRecords]:
        return [entry for entry in self.rounds.values() if entry.end is not None]

    def add(self, record: Record) -> None:
        """Place the next record of the ledger; the contracts guarantee order and uniqueness."""
        _place(self, record)


def _place(history: Rounds, record: Record) -> None:
    match record:
        case Registered():
            history.members[record.client] = Member(
                record.client, record.account, record.vrf_x, record.vrf_y, record.mailbox_key, record.active_from
            )
        case VrfKeyRotated():
            old = history.members[record.client]
            history.members[record.client] = Member(
                old.client, old.account, record.vrf_x, record.vrf_y, old.mailbox_key, record.active_from
            )
        case MailboxKeyRotated():
            old = history.members[record.client]
            history.members[record.client] = Member(
                old.client, old.account, old.vrf_x, old.vrf_y, record.mailbox_key, old.active_from
            )
        case AbsenceRecorded():
            history.ended()[-1].absences.add(record.client)
        case RoundOpened():
            history.rounds[record.round] = RoundRecords(record)
        case SeedFixed():
            history.rounds[record.round].seed = record
        case Drawn() | Shared() | Committed() | Released():
            _by_client(history.rounds[record.round], record)[record.client] = record
        case Sealed():
            entry = history.rounds[record.round]
            entry.sealed = record
            entry.order = tuple(tree.client_of(ticket) for ticket in sorted(entry.tickets))
        case Recovered():
            history.rounds[record.round].recovered = record
        case Closed() | Skipped() | Failed():
            history.rounds[record.round].end = record


def _by_client(entry: RoundRecords, record: Record) -> Mapping[int, Record]:
    match record:
        case Drawn():
            return entry.draws
        case Shared():
            return entry.shares
        case Committed():
            return entry.commits
        case _:
            return entry.releases


def _threshold(n: int, fraction: float) -> int | None:
    """Shares that recover a secret in a round of ``n`` clients; None leaves the default of the mask graph."""
    holders = n - 1 if n <= MAX_HOLDERS else MAX_HOLDERS
    return int(fraction * holders) + 1 if fraction else None
