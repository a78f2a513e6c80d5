"""From the ledger and the store to the next global model: the one computation that everybody can repeat.

The coordinator runs it to close a round, clients and the auditor to check it; the same inputs give the same bytes.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from fedgrove.node.masking.recovery import RecoveryRecord, recover
from fedgrove.node.masking.release import most_release_bytes
from fedgrove.node.masking.sealing import shares_bytes
from fedgrove.node.privacy.records import ClientLevelRecord
from fedgrove.node.protocol.content import fetch_available
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.spending import Spending


def seed_hashes(current: RoundRecords) -> dict[int, bytes]:
    """SHA-256 of each survivor's self-mask seed, by leaf position."""
    return {current.order.index(client): record.seed_hash for client, record in current.commits.items()}


def recovery(inputs: RoundInputs, data: bytes) -> RecoveryRecord:
    """Parse a round's recovery record and check it against the ledger; raises InvalidContent."""
    return RecoveryRecord.parse(data, inputs.graph, inputs.sharers, inputs.survivors, seed_hashes(inputs.current))


def sealed_shares(inputs: RoundInputs, owners: Iterable[int]) -> dict[int, bytes]:
    """The blobs of sealed shares of these positions, as far as they can be fetched and have the right size.

    Raises Unreachable.
    """
    graph, order = inputs.graph, inputs.current.order
    digests = {
        owner: inputs.current.shares[order[owner]].digest for owner in owners if order[owner] in inputs.current.shares
    }
    return fetch_available(inputs.store, digests, {owner: shares_bytes(graph, owner) for owner in digests})


def released_shares(inputs: RoundInputs) -> dict[int, bytes]:
    """Releases of the holders by position, as far as they can be fetched and are not too large; raises Unreachable."""
    graph, current = inputs.graph, inputs.current
    digests = {current.order.index(client): record.digest for client, record in current.releases.items()}
    return fetch_available(inputs.store, digests, {holder: most_release_bytes(graph, holder) for holder in digests})


def recovered(inputs: RoundInputs, released: Mapping[int, bytes], left_out: Collection[int] = ()) -> RecoveryRecord:
    """The recovery record that follows from what was shared, and released by these positions.

    Raises
    ------
    Unreachable
    node.masking.recovery.TooFewShares
    """
    shares = sealed_shares(inputs, range(inputs.graph.n))
    hashes = seed_hashes(inputs.current)
    return recover(inputs.graph, inputs.sharers, inputs.survivors, hashes, released, shares, left_out)


def outcome(method: Method, inputs: RoundInputs, record: RecoveryRecord) -> Outcome:
    """Sum the survivors' uploads, take the masks off, return the next global model and what the round released.

    Raises
    ------
    StoreError
        An upload cannot be fetched.
    node.masking.aggregate.InvalidUpdate
        An upload has the wrong length, or its blocks make no file.
    """
    result = method.codec.outcome(inputs, record)
    if result.privacy is None:
        return result
    spent, number = spending(method, inputs), inputs.current.number
    figures = {"epsilon": spent.largest(number)[1]}
    if isinstance(result.privacy, ClientLevelRecord):
        figures["ledger_epsilon"] = spent.largest(number, readers=True)[1]
    stated = {name: epsilon if math.isfinite(epsilon) else None for name, epsilon in figures.items()}
    return replace(result, privacy=result.privacy.replace(**stated))


def spending(method: Method, inputs: RoundInputs) -> Spending:
    """Privacy spent by all clients, as the ledger shows it to this round."""
    return Spending(method, inputs.store, inputs.rounds, method.parameters_of(inputs.previous))
