"""From the ledger and the store to the next global model: the one computation that everybody can repeat.

The coordinator runs it to close a round and the auditor to check it; the same inputs give the same bytes (spec 02,
step 6).
"""

from collections.abc import Mapping

from ipfs.store import ContentStore, Malformed, TooLarge
from node.config import FederationConfig
from node.content import update_chunks
from node.masking.aggregate import Aggregate, InvalidUpdate
from node.masking.graph import MaskGraph
from node.masking.recovery import RecoveryRecord
from node.rounds import RoundRecords
from node.tensors import Layout, Tensors, flatten, unflatten


def seed_hashes(entry: RoundRecords) -> dict[int, bytes]:
    """SHA-256 of each survivor's self-mask seed, by leaf position."""
    return {entry.order.index(client): record.seed_hash for client, record in entry.commits.items()}


def next_model(
    store: ContentStore,
    entry: RoundRecords,
    graph: MaskGraph,
    record: RecoveryRecord,
    previous: Mapping,
    config: FederationConfig,
) -> Tensors:
    """Sum the survivors' masked updates, take the masks off, return the next global model.

    Parameters
    ----------
    previous : Tensors
        The round's global model: it fixes the layout, and is the base when updates are deltas.

    Raises
    ------
    StoreError
        An update cannot be fetched.
    node.masking.aggregate.InvalidUpdate
        An update has the wrong length, or its blocks make no file.
    """
    layout = Layout.of(previous)
    aggregate = Aggregate(
        graph,
        entry.positions(entry.shares),
        entry.positions(entry.commits),
        record,
        layout,
        config.masking.bound,
        kappa=config.masking.kappa,
    )
    for client, commit in entry.commits.items():
        try:
            aggregate.add(entry.order.index(client), update_chunks(store, commit.digest, layout.length))
        except (TooLarge, Malformed) as lie:
            raise InvalidUpdate(f"client {client}: {lie}") from None
    vector = aggregate.close()
    if config.masking.masked == "delta":
        vector = flatten(previous) + vector
    return unflatten(vector, layout)
