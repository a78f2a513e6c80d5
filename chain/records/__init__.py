"""Records of the contracts: one frozen dataclass per event, in one module for each phase of a round.

Fields are the events' parameters in snake_case: integers as ``int``, addresses as checksummed ``str``, everything else
as ``bytes``. Digests are the 32-byte sha2-256 digests under which the content store knows the blobs.
"""

from fedgrove.chain.records.base import Call, FailureReason, Log, Phase, Position, Record
from fedgrove.chain.records.draws import (
    DrawEnded,
    Drawn,
    DrawRejected,
    RoundOpened,
    SeedFixed,
)
from fedgrove.chain.records.membership import (
    AbsenceRecorded,
    Approved,
    LedgerFounded,
    MailboxKeyRotated,
    Registered,
    RegistryFounded,
    Revoked,
    VrfKeyRotated,
    Withdrawn,
)
from fedgrove.chain.records.order import (
    SealChunk,
    Sealed,
    Skipped,
)
from fedgrove.chain.records.results import (
    Closed,
    Disputed,
    Failed,
    Recovered,
    Released,
    Voided,
)
from fedgrove.chain.records.uploads import (
    CommitEnded,
    Committed,
    Shared,
    ShareEnded,
)

REGISTRY_RECORDS: tuple[type[Record], ...] = (
    RegistryFounded,
    Registered,
    Approved,
    Revoked,
    VrfKeyRotated,
    MailboxKeyRotated,
    Withdrawn,
    AbsenceRecorded,
)
"""What the registry emits."""

LEDGER_RECORDS: tuple[type[Record], ...] = (
    LedgerFounded,
    RoundOpened,
    SeedFixed,
    Drawn,
    DrawRejected,
    Sealed,
    SealChunk,
    Skipped,
    DrawEnded,
    ShareEnded,
    CommitEnded,
    Shared,
    Committed,
    Released,
    Recovered,
    Closed,
    Failed,
    Disputed,
    Voided,
)
"""What the ledger emits."""

__all__ = [
    "LEDGER_RECORDS",
    "REGISTRY_RECORDS",
    "AbsenceRecorded",
    "Approved",
    "Call",
    "Closed",
    "CommitEnded",
    "Committed",
    "Disputed",
    "DrawEnded",
    "DrawRejected",
    "Drawn",
    "Failed",
    "FailureReason",
    "LedgerFounded",
    "Log",
    "MailboxKeyRotated",
    "Phase",
    "Position",
    "Record",
    "Recovered",
    "Registered",
    "RegistryFounded",
    "Released",
    "Revoked",
    "RoundOpened",
    "SealChunk",
    "Sealed",
    "SeedFixed",
    "ShareEnded",
    "Shared",
    "Skipped",
    "Voided",
    "VrfKeyRotated",
    "Withdrawn",
]
