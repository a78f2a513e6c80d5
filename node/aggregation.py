"""From the ledger and the store to the next global model: the one computation that everybody can repeat.

The coordinator runs it to close a round, clients and the auditor to check it; the same inputs give the same bytes
(spec 02, step 6).
"""

import math
from dataclasses import replace

from node.content import parameters_of
from node.masking.recovery import RecoveryRecord
from node.privacy.records import ClientLevelRecord
from node.rounds import RoundRecords
from node.uploads.kind import Outcome, UploadRound
from node.uploads.kinds import kind_of
from node.uploads.spending import Spending


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
    result = kind_of(round.config).outcome(round, record)
    if result.privacy is None:
        return result
    spent, number = spending(round), round.entry.number
    figures = {"epsilon": spent.largest(number)[1]}
    if isinstance(result.privacy, ClientLevelRecord):
        figures["ledger_epsilon"] = spent.largest(number, readers=True)[1]
    stated = {name: epsilon if math.isfinite(epsilon) else None for name, epsilon in figures.items()}
    return replace(result, privacy=replace(result.privacy, **stated))


def overspent(round: UploadRound) -> str:
    """Whose privacy budget the round exceeds, in one clause: then nothing may be released, and no such round closed."""
    return spending(round).overspent(round.entry) if kind_of(round.config).budget is not None else ""


def spending(round: UploadRound) -> Spending:
    """What everybody has spent, as the ledger shows it to this round."""
    return Spending(round.config, round.store, round.rounds, parameters_of(round.previous))
