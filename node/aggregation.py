"""From the ledger and the store to the next global model: the one computation that everybody can repeat.

The coordinator runs it to close a round, clients and the auditor to check it; the same inputs give the same bytes
(spec 02, step 6).
"""

from node.masking.recovery import RecoveryRecord
from node.rounds import RoundRecords
from node.uploads.kind import Outcome, UploadRound
from node.uploads.kinds import kind_of


def seed_hashes(entry: RoundRecords) -> dict[int, bytes]:
    """SHA-256 of each survivor's self-mask seed, by leaf position."""
    return {entry.order.index(client): record.seed_hash for client, record in entry.commits.items()}


def recovery(round: UploadRound, data: bytes) -> RecoveryRecord:
    """Parse a round's recovery record and check it against the ledger.

    Raises
    ------
    node.masking.recovery.InvalidRecovery
    """
    return RecoveryRecord.parse(data, round.graph, round.sharers, round.survivors, seed_hashes(round.entry))


def outcome(round: UploadRound, record: RecoveryRecord) -> Outcome:
    """Sum the survivors' uploads, take the masks off, return the next global model and what the round released.

    Raises
    ------
    StoreError
        An upload cannot be fetched.
    node.masking.aggregate.InvalidUpdate
        An upload has the wrong length, or its blocks make no file.
    """
    return kind_of(round.config).outcome(round, record)
