"""Which kind of upload the federation's terms ask for."""

from ipfs.store import ContentStore
from node.clustering.state import ClusterState
from node.config import FederationConfig
from node.content import Model
from node.masking.graph import MIN_CLIENTS, Adjacency
from node.rounds import RoundRecords, Rounds
from node.uploads import kmeans_rounds
from node.uploads.client_level import ClientLevelUploads
from node.uploads.cluster_rounds import course_of, groups_of, lots_of, opened_by, state_before
from node.uploads.clustering import ClusteringUploads
from node.uploads.clusters import ClusterUploads
from node.uploads.kind import UploadKind, UploadRound
from node.uploads.local import LocalUploads
from node.uploads.masked import MaskedUploads
from node.uploads.signds import SignDsUploads

_KINDS: dict[str, type[UploadKind]] = {
    "none": MaskedUploads,
    "client": ClientLevelUploads,
    "local": LocalUploads,
    "signds": SignDsUploads,
}


def kind_of(config: FederationConfig) -> UploadKind:
    """The kind of the terms' ``[clustering]``, ``[clusters]`` or ``[privacy]`` table."""
    if config.clustering is not None:
        return ClusteringUploads(config)
    if config.clusters is not None:
        return ClusterUploads(config)
    return _KINDS[config.mechanism](config)


def upload_round(
    rounds: Rounds,
    entry: RoundRecords,
    ledger: tuple[int, str],
    config: FederationConfig,
    store: ContentStore,
    model: Model | None = None,
) -> UploadRound:
    """The public inputs of a sealed round.

    Parameters
    ----------
    ledger : (int, str)
        Chain id and address.
    model : Model, optional
        The global model that the round trains from, where it is at hand.
    """
    groups: Adjacency = ()
    least = MIN_CLIENTS
    if config.clusters is not None:
        model = _seated(rounds, entry, ledger, config, store, state_before(rounds, entry, config, store, model))
        groups = groups_of(entry, model, config)
    elif config.clustering is not None:
        model = kmeans_rounds.state_before(rounds, entry, config, store, model)
        groups = kmeans_rounds.groups_of(rounds, entry, model, config.clustering)
    elif entry.regrouped:
        groups, least = kind_of(config).parts(len(entry.order)), kind_of(config).least(len(entry.order))
    return UploadRound(rounds, entry, entry.graph(*ledger, config.masking, groups, least), config, store, model)


def _seated(
    rounds: Rounds,
    entry: RoundRecords,
    ledger: tuple[int, str],
    config: FederationConfig,
    store: ContentStore,
    state: ClusterState,
) -> ClusterState:
    """In a round to show, the state with those drawn who show, and to whom."""
    lots = lots_of(rounds, entry.number) if state.stage == "show" else None
    if lots is None:
        return state
    opens = None
    if config.clusters.shown == "upload":
        opens = opened_by(upload_round(rounds, rounds.base_of(entry.number), ledger, config, store))
    return course_of(config).seated(state, lots, opens)
