"""A live federation, read over the network: its ledger's history and its store."""

from pathlib import Path

from fedgrove.chain.face.founding import read_deployment, verify_code
from fedgrove.chain.face.networks import connect
from fedgrove.chain.network.history import LedgerHistory, capture
from fedgrove.common.errors import InvalidInput
from fedgrove.ipfs.disk import DiskReader
from fedgrove.ipfs.kubo_address import FORMS
from fedgrove.ipfs.store import ContentReader

_SCHEMES = ("http://", "https://")
_DISK = "disk:"


def is_endpoint(run: object) -> bool:
    """Whether it is the URL of a chain's endpoint, not a path."""
    return isinstance(run, str) and run.startswith(_SCHEMES)


def read_live(url: str, ledger: str | None, store: ContentReader | str | None) -> tuple[LedgerHistory, ContentReader]:
    """All that a ledger holds by now, and the store.

    Parameters
    ----------
    url : str
        Of an EVM JSON-RPC endpoint.
    ledger : str
        Address of the TrainingLedger contract, whose code must be that of this version.
    store : ContentReader or str
        Or ``disk:PATH``, or the address of a Kubo API.

    Raises
    ------
    InvalidInput
        Ledger or store are missing, or cannot be what they are called.
    ChainError, StoreError
        The endpoint does not answer or has no such ledger, or the store's address is none.
    BadHistory
        The records do not fit the blocks.
    """
    if ledger is None or store is None:
        raise InvalidInput("a chain's URL needs the address of a ledger and a store: give ledger and store, too")
    content = _reader(store)
    with connect(url) as network:
        deployment = read_deployment(network, ledger, None)
        verify_code(network, deployment)
        history = capture(network, deployment)
    history.verify()
    return history, content


def _reader(store: ContentReader | str) -> ContentReader:
    if not isinstance(store, str):
        return store
    if store.startswith(_DISK):
        place = Path(store.removeprefix(_DISK))
        if not place.is_dir():
            raise InvalidInput(f"there is no store at {place}")
        return DiskReader(place, grows=True)
    if not store.startswith(FORMS):
        raise InvalidInput(f"store must be disk:PATH or the URL of a Kubo API, not {store!r}")
    from fedgrove.ipfs.kubo import open_kubo  # an extra of its own

    return open_kubo(store)
