"""Chain, ledger and store that ``[network]`` names."""

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.founding import read_deployment, verify_code
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.endpoint import origin_of
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.disk import DiskReader, DiskStore
from fedgrove.ipfs.kubo_address import FORMS
from fedgrove.ipfs.store import ContentReader, ContentStore
from fedgrove.node.cli.extras import require
from fedgrove.node.cli.output import CommandError
from fedgrove.node.methods.terms import load_config
from fedgrove.node.protocol.network_settings import NetworkSettings


@contextmanager
def open_ledger(config: Path, keys: Keys | None) -> Iterator[Ledger]:
    """The ledger that a federation's TOML file names, sending from these keys' account (None: to read only)."""
    _, reach = load_config(config)
    check_reach(config, reach)
    with open_network(reach) as network:
        deployment = find_federation(network, reach)
        yield Ledger(network, deployment, keys.account if keys else None)


def check_reach(config: Path, reach: NetworkSettings) -> None:
    """Complain unless the file says where the federation is."""
    if not (reach.rpc and reach.ledger):
        raise CommandError(
            f"{config} has no [network] table with rpc and ledger: deploy first, or add the federation's"
        )


def open_network(reach: NetworkSettings) -> Network:
    """A connection to the chain; close it."""
    return connect(
        reach.rpc,
        expected_chain_id=reach.chain_id or None,
        timeout=reach.rpc_seconds,
        max_fee_gwei=reach.max_fee_gwei,
        max_tip_gwei=reach.max_tip_gwei,
        resend_seconds=reach.resend_seconds,
        quorum=reach.rpc_quorum,
        proofs=reach.proofs,
    )


def find_federation(network: Network, reach: NetworkSettings) -> Deployment:
    """The federation's contracts, which must run the code that this package ships."""
    deployment = read_deployment(network, reach.ledger, reach.block or None)
    verify_code(network, deployment)
    return deployment


def open_store(config: Path, reach: NetworkSettings) -> ContentStore:
    """The store of a member, made when it is a directory that is missing."""
    if reach.store.startswith("disk:") and len(reach.store) > len("disk:"):
        return DiskStore(Path(reach.store.removeprefix("disk:")), reach.quota_mib << 20 or None)
    if reach.store.startswith(FORMS):
        return open_kubo_store(reach.store, reach.store_seconds, reach.store_password_file)
    raise CommandError(f"network.store in {config} must be disk:PATH or the URL of a Kubo API: add it")


def open_content(store: str) -> ContentReader:
    """The store to read that ``--store`` names; a disk store must exist."""
    if store.startswith("disk:"):
        path = Path(store.removeprefix("disk:"))
        if not path.is_dir():
            raise CommandError(f"there is no store at {path}")
        return DiskReader(path, grows=True)
    return _named_kubo(store)


def open_for_writing(store: str) -> ContentStore:
    """The store to write to that ``--store`` names; a disk store is made when it is missing."""
    path = store.removeprefix("disk:")
    return DiskStore(Path(path)) if store.startswith("disk:") and path else _named_kubo(store)


def open_kubo_store(url: str, timeout: float = 30.0, password_file: str | None = "") -> ContentStore:
    """The store in the Kubo node with this address; see ``ipfs.kubo.open_kubo``."""
    require("kubo", "a store in a Kubo node")
    from fedgrove.ipfs.kubo import open_kubo

    return open_kubo(url, timeout, password_file)


def _named_kubo(store: str) -> ContentStore:
    if store.startswith(FORMS):
        return open_kubo_store(store)
    raise CommandError(f"--store must be disk:PATH or the URL of a Kubo API, not {store!r}")


def lone_endpoint(reach: NetworkSettings) -> str:
    """Possible attacks of the only endpoint, in a sentence; empty if several must agree, or it is on this machine.

    Those at one origin are one, and where none must agree with another, each that may be asked is the only one.
    """
    quorum = reach.rpc_quorum or min(2, len(set(map(origin_of, reach.rpc))))
    elsewhere = [url for url in reach.rpc if not _is_loopback(url)]
    if quorum > 1 or not elsewhere:
        return ""
    return (
        f"only {origin_of(elsewhere[0])} says which chain is the right one: it could hide the newest records, or show "
        "a federation whose members are its own; run a node, name a second endpoint in network.rpc, or agree on "
        "membership.members"
    )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
