"""Records of the contracts: one frozen dataclass per event (``chain.events`` decodes them from logs).

Fields are the events' parameters in snake_case: integers as ``int``, addresses as checksummed ``str``, everything else
as ``bytes``. Digests are the 32-byte sha2-256 digests under which the content store knows the blobs.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class FailureReason(IntEnum):
    """Why a round was recorded as failed."""

    NONE = 0
    DEADLINE = 1
    TOO_FEW_SURVIVORS = 2
    TOO_FEW_SHARES = 3
    UPDATE_UNAVAILABLE = 4
    INVALID_UPDATE = 5
    INVALID_RELEASE = 6


class Phase(IntEnum):
    """Phase of a round. SKIPPED, FAILED and VOIDED are final; CLOSED is, unless its clients dispute it.

    OVERDUE: anyone may record the round as failed.
    """

    NONE = 0
    SEEDING = 1
    DRAW = 2
    SEAL = 3
    SHARE = 4
    COMMIT = 5
    RECOVER = 6
    CLOSE = 7
    CLOSED = 8
    SKIPPED = 9
    FAILED = 10
    OVERDUE = 11
    VOIDED = 12


class Position(NamedTuple):
    """Place of a log: block number, transaction hash (32 bytes), index of the log within the block.

    ``author`` is the checksummed address of the account that answers for the record, by its signature; empty where
    nobody has checked that.
    """

    block: int
    transaction: bytes
    log_index: int
    author: str = ""


@dataclass(frozen=True, slots=True)
class Log:
    """One log as the chain holds it: emitting contract (checksummed), topics (32 bytes each), data, place."""

    address: str
    topics: tuple[bytes, ...]
    data: bytes
    at: Position


@dataclass(frozen=True, slots=True)
class Record:
    """Base of all records: their place on the chain."""

    at: Position


@dataclass(frozen=True, slots=True)
class RegistryFounded(Record):
    """The registry was created."""


@dataclass(frozen=True, slots=True)
class LedgerFounded(Record):
    """The ledger was created."""


@dataclass(frozen=True, slots=True)
class Registered(Record):
    """A client joined; drawable in rounds opened from block ``active_from`` on. ``proof`` is of possession."""

    account: str
    client: int
    vrf_x: int
    vrf_y: int
    mailbox_key: bytes
    active_from: int
    proof: bytes


@dataclass(frozen=True, slots=True)
class Approved(Record):
    """The admin lets an account take part."""

    account: str


@dataclass(frozen=True, slots=True)
class Revoked(Record):
    """The admin ends an approval."""

    account: str


@dataclass(frozen=True, slots=True)
class VrfKeyRotated(Record):
    """A client replaced its VRF key."""

    account: str
    client: int
    vrf_x: int
    vrf_y: int
    active_from: int
    proof: bytes


@dataclass(frozen=True, slots=True)
class MailboxKeyRotated(Record):
    """A client replaced its X25519 mailbox key."""

    account: str
    client: int
    mailbox_key: bytes


@dataclass(frozen=True, slots=True)
class Withdrawn(Record):
    """A client takes back ``points`` of its data points, all that it has if 0; ``digest`` commits to which ones."""

    account: str
    client: int
    points: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class AbsenceRecorded(Record):
    """A client was absent in the latest ended round; ``absences`` counts this one too."""

    client: int
    absences: int


@dataclass(frozen=True, slots=True)
class RoundOpened(Record):
    """A round was opened. ``sampling_rate`` is in parts per million; ``barred``: clients named as barred."""

    round: int
    model_digest: bytes
    config_digest: bytes
    sampling_rate: int
    opened_at: int
    seed_block: int
    barred: int


@dataclass(frozen=True, slots=True)
class DrawEnded(Record):
    """The draws ended with this block, as everyone has drawn who may."""

    round: int


@dataclass(frozen=True, slots=True)
class ShareEnded(Record):
    """The share phase ended with this block, as everyone has shared who drew."""

    round: int


@dataclass(frozen=True, slots=True)
class CommitEnded(Record):
    """The commit phase ended with this block, as everyone has committed who shared."""

    round: int


@dataclass(frozen=True, slots=True)
class SeedFixed(Record):
    """The hash of the seed block, and the seed that follows from it."""

    round: int
    block_hash: bytes
    seed: bytes


@dataclass(frozen=True, slots=True)
class Drawn(Record):
    """A client was drawn, with this round's X25519 keys and an 81-byte RFC 9381 proof."""

    round: int
    client: int
    samples: int
    mask_key: bytes
    seal_key: bytes
    proof: bytes


@dataclass(frozen=True, slots=True)
class DrawRejected(Record):
    """An item of a batch was passed over; ``reason`` is the 4-byte selector of the error."""

    round: int
    account: str
    reason: bytes


@dataclass(frozen=True, slots=True)
class Sealed(Record):
    """The order of all drawn clients is fixed; ``order_seed`` is what it is sorted with (``tree.key``)."""

    round: int
    drawn: int
    order_seed: bytes
    order_root: bytes


@dataclass(frozen=True, slots=True)
class SealChunk(Record):
    """A sender has placed this many tickets of a large round so far."""

    round: int
    placed: int


@dataclass(frozen=True, slots=True)
class Skipped(Record):
    """Fewer clients than the quorum were drawn."""

    round: int
    drawn: int


@dataclass(frozen=True, slots=True)
class Shared(Record):
    """A client's encrypted shares."""

    round: int
    client: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Committed(Record):
    """A client's masked update, and the hash of its self-mask seed."""

    round: int
    client: int
    digest: bytes
    seed_hash: bytes


@dataclass(frozen=True, slots=True)
class Released(Record):
    """The shares that a client releases for the recovery."""

    round: int
    client: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Recovered(Record):
    """The survivor list is closed; the recovery record."""

    round: int
    digest: bytes
    survivors: int


@dataclass(frozen=True, slots=True)
class Closed(Record):
    """The round ended with the next global model."""

    round: int
    model_digest: bytes
    metrics_digest: bytes


@dataclass(frozen=True, slots=True)
class Failed(Record):
    """The round ended without a model."""

    round: int
    reason: FailureReason
    evidence: bytes


@dataclass(frozen=True, slots=True)
class Disputed(Record):
    """A client that committed in a closed round says that its closing is wrong; ``evidence`` is a blob's digest."""

    round: int
    client: int
    evidence: bytes


@dataclass(frozen=True, slots=True)
class Voided(Record):
    """A closed round that most of its clients disputed, or the round that ran on its model (``disputes`` is then 0).

    ``model_digest`` is the model that stands again.
    """

    round: int
    model_digest: bytes
    disputes: int
