"""Making a testnet's directory: data split, keys made, contracts deployed, accounts funded.

Whatever is here was made in one go: the record is written last, and a directory without it is cleared and made anew.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.networks import anvil, embedded
from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.errors import InvalidContent, InvalidInput, Refused, RunFailed
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.devnet.members import COORDINATOR, check_written, client_name, found_with_funds
from fedgrove.node.devnet.methods import subject_of
from fedgrove.node.devnet.subject import Subject
from fedgrove.node.devnet.testnet.layout import Testnet, TestnetPaths, clear, groups, kubo_name, write_record
from fedgrove.node.devnet.testnet.processes import local_kubo, with_ports, write_configs
from fedgrove.node.devnet.testnet.windows import windows_of
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.tasks.sandbox.settings import Visible
from fedgrove.node.tasks.sandbox.worker import refuse_private

Progress = Callable[[str], None]


def make(layout: TestnetPaths, scenario: Scenario, say: Progress = lambda sentence: None) -> Testnet:
    """Make everything that a testnet needs but its processes; the caller holds the directory's lock.

    Raises
    ------
    RunFailed
        The data do not suit the scenario, or training diverges.
    InvalidConfig, InvalidInput, DatasetError, TaskFailed, SandboxUnavailable
        The data set, the task, its terms or its data are not right, nothing contains its code here, or it would see the
        testnet.
    """
    _begin(layout)
    names = [COORDINATOR, *(client_name(number) for number in range(1, scenario.cast.clients + 1))]
    everyone = {name: Keys.generate() for name in names}
    _prepare_stores(layout, scenario)
    with ExitStack() as stack:
        subject = _subject(layout, scenario, stack, say)
        members = [keys.address for name, keys in everyone.items() if name != COORDINATOR]
        config = _terms(layout, scenario, subject, everyone[COORDINATOR]).with_members(members)
        _equip(layout, everyone)
        places = {name: layout.participant(name) for name in everyone}
        sources = subject.hand_out(config, places, everyone)
    say("deploying the contracts")
    deployment = _found(layout, scenario, config, everyone)
    accounts = {name: keys.address for name, keys in everyone.items()}
    place = (deployment.chain_id, deployment.registry, deployment.ledger, deployment.block)
    testnet = with_ports(Testnet(scenario.to_tables(), *place, accounts, sources=sources))
    write_configs(layout, testnet, config)
    write_record(layout, testnet)
    layout.unfinished.unlink()
    return testnet


def _subject(layout: TestnetPaths, scenario: Scenario, stack: ExitStack, say: Progress) -> Subject:
    if scenario.task is None:
        say(f"splitting {scenario.cast.dataset} over {scenario.cast.clients} clients")
    else:
        refuse_private(Visible(Path(scenario.task.folder), Path(scenario.cast.data), _bases(scenario)), [layout.root])
        say("packing the task, and training one client to see how long it takes")
    return subject_of(scenario, stack, say)


def _terms(layout: TestnetPaths, scenario: Scenario, subject: Subject, founder: Keys) -> FederationConfig:
    """The terms, with windows that suit what a round takes here; what they name is stored."""
    try:
        with _open_store(layout, scenario) as store:
            config, first = subject.found(scenario, store, founder)
            return replace(config, ledger=windows_of(scenario, config, subject, first))
    except DivergedTraining as fault:
        raise RunFailed(f"training diverges: {fault}") from None
    except (InvalidInput, InvalidContent, Refused) as fault:
        if scenario.task is not None:
            raise
        raise RunFailed(f"the data do not fit this testnet: {fault}") from None


def _bases(scenario: Scenario) -> dict[str, Path]:
    return {name: Path(path) for name, path in scenario.cast.bases.items()}


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
        layout.participant(name).equip(keys)
        layout.participant(name).state.mkdir(mode=0o700)


def _found(layout: TestnetPaths, scenario: Scenario, config: FederationConfig, everyone: dict[str, Keys]) -> Deployment:
    """Deploy on the testnet's own chain, while each transaction still makes a block at once."""
    with embedded(layout.blocks) if scenario.run.chain == "embedded" else anvil(layout.chain) as network:
        deployment = found_with_funds(network, config, everyone)
    if scenario.run.chain == "anvil":
        check_written(layout.chain)
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
