"""An explorer over a live ledger, served while a block runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedgrove.chain.network.access import Network
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.explorer.cache import open_index
from fedgrove.node.explorer.server import serving
from fedgrove.node.explorer.sources import LiveSource
from fedgrove.node.explorer.watch import IndexWatch


@contextmanager
def live_pages(
    network: Network, deployment: Deployment, store: ContentReader, name: str, command: str, indexes: Path
) -> Iterator[str]:
    """Serve pages about a federation on a free port of this machine; gives their address.

    Parameters
    ----------
    name, command : str
        What people call the source, and the command that audits the same.
    indexes : Path
        Folder of the index.
    """
    source = LiveSource(network, deployment, store, name, command)
    with open_index(source, indexes) as index, IndexWatch(source, index) as watch, serving(watch) as address:
        yield address
