"""Making a testnet's directory: data split, keys made, contracts deployed, accounts funded.

Whatever is here was made in one go: the record is written last, and a directory without it is cleared and made anew.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fedgrove.chain.crypto.keys import Keys, save
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import anvil, embedded
from fedgrove.chain.network.anvil_state import was_written
from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.errors import InvalidContent, InvalidInput, Refused
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.devnet.testnet.beginning import beginning
from fedgrove.node.devnet.testnet.layout import (
    ParticipantPaths,
    Testnet,
    TestnetError,
    TestnetPaths,
    clear,
    client_name,
    groups,
    kubo_name,
    write_record,
)
from fedgrove.node.devnet.testnet.processes import COORDINATOR, local_kubo, with_ports, write_configs
from fedgrove.node.devnet.testnet.task_beginning import approve_for_all, begin_task, place_sources
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.methods.kmeans.datasets import Points
from fedgrove.node.methods.terms import with_first_model
from fedgrove.node.protocol.founding import found
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.scenario import Scenario

FUNDS_ETHER = 100
# The password lies next to the keystore and the accounts hold test ether: the work factor guards nothing here, and with
# the usual one every start of twenty services would take half a minute.
_COST = 1 << 14

Progress = Callable[[str], None]


def make(
    layout: TestnetPaths, scenario: Scenario, data: Dataset | Points | None, say: Progress = lambda sentence: None
) -> Testnet:
    """Make everything that a testnet needs but its processes; the caller holds the directory's lock.

    Parameters
    ----------
    data : Dataset, Points or None
        What is split among the clients; None where the scenario has a task, which reads its own.

    Raises
    ------
    TestnetError
        The data do not suit the scenario.
    InvalidConfig, BundleError, TaskFailed, DivergedTraining, SandboxUnavailable
        As ``begin_task``.
    """
    _begin(layout)
    everyone = {COORDINATOR: Keys.generate()} | {
        client_name(n): Keys.generate() for n in range(1, scenario.cast.clients + 1)
    }
    _prepare_stores(layout, scenario)
    if data is None:
        config, sources = _with_task(layout, scenario, everyone, say)
    else:
        config, sources = _with_data(layout, scenario, data, everyone, say), {}
    say("deploying the contracts")
    deployment = _found(layout, scenario, config, everyone)
    accounts = {name: keys.address for name, keys in everyone.items()}
    place = (deployment.chain_id, deployment.registry, deployment.ledger, deployment.block)
    testnet = with_ports(Testnet(scenario, *place, accounts, sources=sources))
    write_configs(layout, testnet, config)
    write_record(layout, testnet)
    layout.unfinished.unlink()
    return testnet


def _with_task(
    layout: TestnetPaths, scenario: Scenario, everyone: dict[str, Keys], say: Progress
) -> tuple[FederationConfig, dict[str, list[str]]]:
    """The terms with the task, which everybody has approved, and everybody's source of data."""
    say("packing the task, and training one client to see how long it takes")
    try:
        with _open_store(layout, scenario) as store:
            begun = begin_task(layout, scenario, store, everyone[COORDINATOR], say)
    except DivergedTraining as fault:
        raise TestnetError(f"the task's training diverges: {fault}") from None
    _equip(layout, everyone)
    approve_for_all(layout, everyone, begun.bundle)
    return begun.config, place_sources(layout, begun)


def _with_data(
    layout: TestnetPaths, scenario: Scenario, data: Dataset | Points, everyone: dict[str, Keys], say: Progress
) -> FederationConfig:
    """The terms; everybody's data are written."""
    say(f"splitting {data.name} over {scenario.cast.clients} clients")
    founder = everyone[COORDINATOR]
    try:
        begun = beginning(scenario, data, founder.mailbox_public, founder.address)
    except (ValueError, InvalidInput, InvalidContent, Refused) as fault:
        raise TestnetError(f"the data do not fit this testnet: {fault}") from None
    _equip(layout, everyone)
    for number, arrays in enumerate(begun.parts, 1):
        _save_arrays(layout.participant(client_name(number)).data, **arrays)
    if begun.test:
        _save_arrays(layout.participant(COORDINATOR).data, **begun.test)
    if begun.shared:
        say("storing the shared samples")
        with _open_store(layout, scenario) as store:
            store.put(begun.shared)
    return with_first_model(begun.config)


def _begin(layout: TestnetPaths) -> None:
    """Mark the directory as unfinished, and remove what an attempt before this one left."""
    layout.unfinished.touch(mode=0o600)
    layout.root.chmod(0o700)
    clear(layout)
    layout.logs.mkdir()
    layout.chain.parent.mkdir()


def _equip(layout: TestnetPaths, everyone: dict[str, Keys]) -> None:
    """A folder, a password and a keystore for each participant."""
    for name, keys in everyone.items():
        _equip_one(layout.participant(name), keys)


def _equip_one(participant: ParticipantPaths, keys: Keys) -> None:
    participant.root.mkdir(mode=0o700)
    participant.state.mkdir(mode=0o700)
    participant.password.touch(mode=0o600)
    password = secrets.token_urlsafe(24)
    participant.password.write_text(password + "\n")
    save(participant.keystore, keys, password, cost=_COST)


def _save_arrays(path: Path, **arrays: np.ndarray) -> None:
    path.touch(mode=0o600)
    np.savez(path, allow_pickle=True, **arrays)


def _found(layout: TestnetPaths, scenario: Scenario, config: FederationConfig, everyone: dict[str, Keys]) -> Deployment:
    """Deploy on the testnet's own chain, while each transaction still makes a block at once, and fund everyone.

    The admin approves the clients where that is called for, and is nobody afterwards.
    """
    with embedded(layout.blocks) if scenario.run.chain == "embedded" else anvil(layout.chain) as network:
        for keys in everyone.values():
            network.fund(keys.address, FUNDS_ETHER)
        keys, admin = everyone[COORDINATOR], Keys.generate()
        deployment = found(network, keys.account, config, keys.address, admin.address)
        if config.membership.mode == "approved":
            network.fund(admin.address, FUNDS_ETHER)
            ledger = Ledger(network, deployment, admin.account)
            for name, member in everyone.items():
                if name != COORDINATOR:
                    ledger.approve(member.address)
    if scenario.run.chain == "anvil" and not was_written(layout.chain):
        raise TestnetError("the disk has no room for the chain's state: make room and run the command again")
    return deployment


def _prepare_stores(layout: TestnetPaths, scenario: Scenario) -> None:
    """A secret for the nodes' swarm, and each node's own log among the others."""
    if scenario.run.store != "kubo":
        return
    layout.swarm_key.touch(mode=0o600)
    layout.swarm_key.write_text(secrets.token_hex(32) + "\n")
    for group in range(1, groups(scenario) + 1):
        layout.log(kubo_name(group)).symlink_to(Path("..") / kubo_name(group) / "node.log")


@contextmanager
def _open_store(layout: TestnetPaths, scenario: Scenario) -> Iterator[ContentStore]:
    if scenario.run.store == "disk":
        yield DiskStore(layout.store(scenario, 1))
        return
    with local_kubo(layout, scenario, 1) as node:
        yield KuboStore(node.url)
