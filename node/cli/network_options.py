"""The scenario of ``fedgrove network up``: chain and store are chosen, and a testnet that is there keeps its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from fedgrove.chain.face.networks import INSTALL_ANVIL, has_anvil
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.cli.extras import missing
from fedgrove.node.cli.output import CommandError, note
from fedgrove.node.cli.scenario_options import Asked
from fedgrove.node.devnet.kubo.local_node import INSTALL_KUBO, find_kubo
from fedgrove.node.devnet.testnet.layout import TestnetPaths, read_record
from fedgrove.node.scenario.scenario import Scenario

STORES, CHAINS = ("kubo", "disk"), ("anvil", "embedded")
AUTO = "auto"
MOST_CLIENTS = 99


def choose_chain(chain: str, new: bool) -> str:
    """The chain that was asked for; else anvil where it is installed. A new testnet's user is told how to get it."""
    if chain != AUTO or has_anvil():
        return "anvil" if chain == AUTO else chain
    if new:
        note(f"chain: py-evm in one process, as anvil is not installed (`{INSTALL_ANVIL}`)")
    return "embedded"


def choose_store(store: str, new: bool) -> str:
    """The kind of store that was asked for; else Kubo where it is installed, as ``choose_chain`` does."""
    if store != AUTO or find_kubo() is not None:
        return "kubo" if store == AUTO else store
    if new:
        note(f"store: a folder, as Kubo is not installed (`{INSTALL_KUBO}`)")
    return "disk"


def testnet_scenario(asked: Asked, layout: TestnetPaths, wait: bool) -> Scenario:
    """The scenario to bring up: that of the testnet that is there already, or what was asked for, checked.

    Raises
    ------
    CommandError
        What is asked for is not what the testnet was made with, or cannot run as one.
    """
    if layout.record.exists():
        return _same(asked, layout)
    scenario = asked.scenario()
    if scenario.kmeans is not None and wait:
        raise CommandError("a K-means testnet runs until `fedgrove network down`: leave --wait out")
    run = scenario.run
    if run.store not in (AUTO, *STORES):
        raise InvalidConfig(f"run.store must be one of {', '.join((AUTO, *STORES))}, not {run.store!r}")
    if run.chain not in (AUTO, *CHAINS):
        raise InvalidConfig(f"run.chain must be one of {', '.join((AUTO, *CHAINS))}, not {run.chain!r}")
    if run.standby > scenario.cast.clients:
        clients = scenario.cast.clients
        raise InvalidConfig(f"run.standby must be at most the number of clients, {clients}, not {run.standby}")
    if scenario.cast.drop:
        raise InvalidConfig("scenario.drop is for demonstrations: end a process of a testnet to drop a client out")
    from fedgrove.node.devnet.terms import check_federation  # brings what trains

    check_federation(scenario, MOST_CLIENTS)
    explorer = not missing("explorer") if run.explorer is None else run.explorer
    run = replace(run, store=choose_store(run.store, True), chain=choose_chain(run.chain, True), explorer=explorer)
    return replace(scenario, run=run).absolute()


def _same(asked: Asked, layout: TestnetPaths) -> Scenario:
    """The scenario of a testnet that is there; what is asked for must be what it was made with."""
    with sentences(2):
        made = read_record(layout).scenario
    remedy = "give another --dir, or start again after `fedgrove network down --delete`"
    asked.check_same(made, f"the testnet in {layout.root} was made", remedy)
    return made


@contextmanager
def sentences(code: int) -> Iterator[None]:
    """Make what a testnet says of itself the command's one sentence, with this exit code; 2 for an unfit directory."""
    yield
