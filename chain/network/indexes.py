"""The reading of a federation's records that a network asks for."""

from fedgrove.chain.network.access import Network
from fedgrove.chain.network.agreed_index import AgreedIndex
from fedgrove.chain.network.log_index import LogIndex
from fedgrove.chain.network.record_index import RecordIndex
from fedgrove.chain.records.deployment import Deployment


def index_of(network: Network, deployment: Deployment) -> RecordIndex:
    """The one index of a federation's records on a network, so that no block is read twice."""
    kind = LogIndex if network.proofs == "headers" else AgreedIndex
    return network.shared(RecordIndex, deployment, lambda: kind(network, deployment))
