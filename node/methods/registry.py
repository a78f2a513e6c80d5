"""Which kind of upload the federation's terms ask for."""

from fedgrove.ipfs.store import ContentStore
from fedgrove.node.masking.graph import MIN_CLIENTS, Adjacency
from fedgrove.node.methods.kmeans import round_inputs as kmeans_rounds
from fedgrove.node.methods.kmeans.uploads import ClusteringUploads
from fedgrove.node.methods.procfl.round_inputs import course_of, groups_of, lots_of, opened_by, state_before
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.uploads import ClusterUploads
from fedgrove.node.methods.training.client_level import ClientLevelUploads
from fedgrove.node.methods.training.local import LocalUploads
from fedgrove.node.methods.training.masked import MaskedUploads
from fedgrove.node.methods.training.signds import SignDsUploads
from fedgrove.node.protocol.content import Model
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.protocol.uploads import UploadKind, UploadRound

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
