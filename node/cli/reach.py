"""Chain, ledger and store that ``[network]`` names."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.founding import read_deployment, verify_code
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect
from fedgrove.chain.network.access import Network
from fedgrove.chain.records.deployment import Deployment
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.kubo_address import FORMS
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.cli.output import CommandError
from fedgrove.node.cli.stores import open_kubo_store
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
