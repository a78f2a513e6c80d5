"""From the ledger and the store to the next global model: the one computation that everybody can repeat.

The coordinator runs it to close a round, clients and the auditor to check it; the same inputs give the same bytes.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from fedgrove.chain.records import Closed, Replaced
from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.recovery import RecoveryRecord, TooFewShares, most_record_bytes, recover, unavailable_updates
from fedgrove.node.masking.release import most_release_bytes
from fedgrove.node.masking.sealing import shares_bytes
from fedgrove.node.privacy.records import ClientLevelRecord
from fedgrove.node.protocol.content import fetch_available, fetch_metrics, unavailable
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.spending import Spending
from fedgrove.node.protocol.step import name_clients


def seed_hashes(current: RoundRecords) -> dict[int, bytes]:
    """SHA-256 of each survivor's self-mask seed, by leaf position."""
    return {current.order.index(client): record.seed_hash for client, record in current.commits.items()}


def recovery(inputs: RoundInputs, data: bytes) -> RecoveryRecord:
    """Parse a round's recovery record and check it against the ledger; raises InvalidContent."""
    record = RecoveryRecord.parse(data, inputs.graph, inputs.sharers, inputs.survivors, seed_hashes(inputs.current))
    if record.expelled and inputs.bounds is None:
        raise InvalidContent("the recovery record expels somebody, where updates have no bounds")
    return record


def named_recovery(inputs: RoundInputs) -> RecoveryRecord:
    """The recovery record that a closed round's metrics name, checked; raises StoreError, InvalidContent."""
    stated = fetch_metrics(inputs.store, inputs.current.result.metrics_digest)
    most = most_record_bytes(inputs.graph, expels=inputs.bounds is not None)
    return recovery(inputs, inputs.store.fetch(bytes.fromhex(stated.recovery), most))


def sealed_shares(inputs: RoundInputs, owners: Iterable[int]) -> dict[int, bytes]:
    """The blobs of sealed shares of these positions, as far as they can be fetched and have the right size.

    Raises Unreachable.
    """
    graph, order = inputs.graph, inputs.current.order
    digests = {
        owner: inputs.current.shares[order[owner]].digest for owner in owners if order[owner] in inputs.current.shares
    }
    return fetch_available(inputs.store, digests, {owner: shares_bytes(graph, owner) for owner in digests})


def released_shares(inputs: RoundInputs, stage: int = 0) -> dict[int, bytes]:
    """Releases of the holders by position, as far as they can be fetched and are not too large; raises Unreachable.

    ``stage`` is one of those in which shares are released where updates have bounds.
    """
    graph, current = inputs.graph, inputs.current
    listed = current.releases_in(stage)
    digests = {current.order.index(client): record.digest for client, record in listed.items()}
    return fetch_available(inputs.store, digests, {holder: most_release_bytes(graph, holder) for holder in digests})


def recovered(
    inputs: RoundInputs,
    released: Mapping[int, bytes],
    left_out: Collection[int] = (),
    expelled: Mapping[int, bytes] | None = None,
) -> RecoveryRecord:
    """The recovery record that follows from what was shared, and released by these positions.

    ``expelled`` has b of those who are not summed, as they lied about their updates.

    Raises
    ------
    Unreachable
    node.masking.recovery.TooFewShares
    """
    shares = sealed_shares(inputs, range(inputs.graph.n))
    hashes = seed_hashes(inputs.current)
    return recover(inputs.graph, inputs.sharers, inputs.survivors, hashes, released, shares, left_out, expelled)


def unavailable_commits(method: Method, inputs: RoundInputs, released: Mapping[int, bytes]) -> list[int]:
    """Clients whose update neither most of its witnesses nor this node can have; raises Unreachable."""
    lost = unavailable_updates(inputs.graph, inputs.sharers, inputs.survivors, released)
    clients = [inputs.graph.client(position) for position in lost]
    sizes = {client: method.codec.expected_bytes(inputs, client) for client in clients}
    return unavailable(inputs.store, {client: inputs.current.commits[client].digest for client in sizes}, sizes)


def recovered_without_spoilt(
    inputs: RoundInputs, released: Mapping[int, bytes], gone: Collection[int], final: bool
) -> RecoveryRecord:
    """The recovery record; where groups are summed apart, a group is left out that cannot be recovered.

    Parameters
    ----------
    gone : collection of int
        Clients whose update cannot be had: their groups are left out.
    final : bool
        No more shares are waited for.

    Raises
    ------
    Unreachable
    node.masking.recovery.TooFewShares
    """
    groups = [{inputs.graph.client(position) for position in group.positions} for group in inputs.graph.groups]
    left_out = {number for number, group in enumerate(groups) if group.intersection(gone)}
    while True:
        try:
            return recovered(inputs, released, left_out)
        except TooFewShares as lack:
            spoilt = {number for number, group in enumerate(groups) if lack.client in group} - left_out
            if not (spoilt and (final or lack.owner_lied)):
                raise
            left_out |= spoilt


def left_out_fault(inputs: RoundInputs, record: RecoveryRecord, end: Closed | Replaced) -> str:
    """Why a result must not leave out a group that its recovery record does, in one clause; empty where it may.

    A closing may where most witnesses of an update report that they cannot have it, or the shares that were released
    before it recover no secret. What members put in its place may: more than half of those that committed say so, and
    shares that only some could have in time leave no trace on the ledger. Raises Unreachable.
    """
    if not record.left_out or isinstance(end, Replaced):
        return ""
    graph, releases = inputs.graph, inputs.current.releases
    early = {client for client, each in releases.items() if each.at < end.at}
    released = {at: data for at, data in released_shares(inputs).items() if graph.client(at) in early}
    lost = set(unavailable_updates(graph, inputs.sharers, inputs.survivors, released))
    for number in record.left_out:
        if lost.intersection(graph.groups[number].positions):
            continue
        try:
            recovered(inputs, released, [other for other in range(len(graph.groups)) if other != number])
        except TooFewShares:
            continue
        who = name_clients([graph.client(position) for position in graph.groups[number].positions])
        return f"it leaves out {who}, whose secrets can be recovered"
    return ""


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
