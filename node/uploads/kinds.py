"""Which kind of upload the federation's terms ask for."""

from node.config import FederationConfig
from node.uploads.client_level import ClientLevelUploads
from node.uploads.clustering import ClusteringUploads
from node.uploads.kind import UploadKind
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
    """The kind of the terms' ``[clustering]`` or ``[privacy]`` table."""
    if config.clustering is not None:
        return ClusteringUploads(config)
    return _KINDS[config.mechanism](config)
