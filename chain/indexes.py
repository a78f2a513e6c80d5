"""The reading of a federation's records that a network asks for."""

from fedgrove.chain.access import Network
from fedgrove.chain.agreed_index import AgreedIndex
from fedgrove.chain.deployment import Deployment
from fedgrove.chain.log_index import LogIndex
from fedgrove.chain.record_index import RecordIndex


def index_of(network: Network, deployment: Deployment) -> RecordIndex:
    """The one index of a federation's records on a network, so that no block is read twice."""
    kind = LogIndex if network.proofs == "headers" else AgreedIndex
    return network.shared(RecordIndex, deployment, lambda: kind(network, deployment))
