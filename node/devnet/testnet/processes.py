"""Processes of a testnet: the command line, the environment and the configuration of each process."""

import dataclasses
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.networks import anvil_command, embedded_command, free_port, restore_block_hashes
from fedgrove.node.base.files import write_atomically
from fedgrove.node.devnet.forks import ForkServer
from fedgrove.node.devnet.kubo.local_node import LocalKubo
from fedgrove.node.devnet.members import COORDINATOR, ParticipantPaths, client_name
from fedgrove.node.devnet.testnet.keeper import Command, Job
from fedgrove.node.devnet.testnet.layout import Testnet, TestnetPaths, group_of, groups, kubo_name
from fedgrove.node.methods.terms import load_config
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.scenario import Scenario

CHAIN, EXPLORER = "chain", "explorer"
COMMAND = [sys.executable, "-m", "fedgrove.node.cli"]
MEMBERS = ("fedgrove.node.cli.services", "fedgrove.node.roles.client", "fedgrove.node.roles.coordinator")
NETWORKS = "fedgrove.node.methods.training.network_trainer"
PASSWORD_VARIABLE = "FEDGROVE_PASSWORD"
CHAIN_SECONDS = 30.0
# A blob that is nowhere is waited for this long, and the windows of a testnet are short.
STORE_SECONDS = 5.0
_POLL_SECONDS = 0.05


def with_ports(testnet: Testnet) -> Testnet:
    """The testnet with a free port for each process that listens, the same as before where nobody has taken it."""
    names = [CHAIN] + [
        kubo_name(group) for group in range(1, groups(testnet.scenario) + 1) if testnet.scenario.run.store == "kubo"
    ]
    names += [EXPLORER] if testnet.scenario.run.explorer else []
    ports = {}
    for name in names:
        port = testnet.ports.get(name, 0)
        while port == 0 or port in ports.values() or not _is_free(port):
            port = free_port()
        ports[name] = port
    return testnet.replace(ports=ports)


def write_configs(layout: TestnetPaths, testnet: Testnet, config: FederationConfig) -> None:
    """Write the federation's TOML file for each participant, who all agree on it, and for whoever looks on."""
    _write_config(layout.config, config, reach(layout, testnet, 0))
    _write_config(layout.participant(COORDINATOR).config, config, reach(layout, testnet, 0))
    for number in range(1, testnet.scenario.cast.clients + 1):
        _write_config(layout.participant(client_name(number)).config, config, reach(layout, testnet, number))


def read_terms(layout: TestnetPaths) -> FederationConfig:
    """The federation's terms."""
    return load_config(layout.config)[0]


def reach(layout: TestnetPaths, testnet: Testnet, client: int) -> NetworkSettings:
    """How a client (0: the coordinator) reaches chain and store."""
    run, group = testnet.scenario.run, group_of(testnet.scenario, client)
    disk = f"disk:{layout.store(testnet.scenario, group)}"
    return NetworkSettings(
        rpc=(chain_url(testnet),),
        chain_id=testnet.chain_id,
        registry=testnet.registry,
        ledger=testnet.ledger,
        block=testnet.block,
        store=f"http://127.0.0.1:{testnet.ports[kubo_name(group)]}" if run.store == "kubo" else disk,
        store_seconds=STORE_SECONDS,
        sandbox=run.sandbox,
        device=run.device,
        resend_seconds=max(10.0, 5 * run.block_seconds),
    )


def chain_url(testnet: Testnet) -> str:
    """URL of the chain."""
    return f"http://127.0.0.1:{testnet.ports[CHAIN]}"


def explorer_url(testnet: Testnet) -> str:
    """URL of the explorer; empty if the testnet has none."""
    return f"http://127.0.0.1:{testnet.ports[EXPLORER]}/" if testnet.scenario.run.explorer else ""


def chain_job(layout: TestnetPaths, testnet: Testnet) -> Job:
    """The chain, with its state in one file."""
    port, run = testnet.ports[CHAIN], testnet.scenario.run
    if run.chain == "embedded":
        command = embedded_command(port, layout.blocks, run.block_seconds)
    else:
        command = anvil_command(port, layout.chain, run.block_seconds)

    def start() -> Command:
        # Asked to end, not killed, so that it writes its latest blocks.
        running = Command(command, layout.log(CHAIN), _environment(), layout.chain.parent, signal.SIGTERM)
        deadline = time.monotonic() + CHAIN_SECONDS
        while _is_free(port) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if run.chain == "anvil":
            with suppress(ChainError):  # one that has ended again is started again
                restore_block_hashes(chain_url(testnet))
        return running

    return Job(CHAIN, "chain", start, ends=False)


def store_jobs(layout: TestnetPaths, testnet: Testnet) -> list[Job]:
    """The Kubo nodes, if the testnet has any; each meets those that run when it starts."""
    if testnet.scenario.run.store != "kubo":
        return []
    addresses: dict[int, tuple[str, ...]] = {}

    def job(group: int) -> Job:
        def start() -> LocalKubo:
            others = [address for known, places in addresses.items() if known != group for address in places]
            node = local_kubo(layout, testnet.scenario, group, testnet.ports[kubo_name(group)], others)
            addresses[group] = node.__enter__().addresses
            return node

        return Job(kubo_name(group), "store", start, ends=False)

    return [job(group) for group in range(1, groups(testnet.scenario) + 1)]


def local_kubo(
    layout: TestnetPaths, scenario: Scenario, group: int, port: int = 0, peers: Sequence[str] = ()
) -> LocalKubo:
    """The Kubo node of a group, in the testnet's swarm."""
    return LocalKubo(
        layout.store(scenario, group), port=port, swarm_key=layout.swarm_key.read_text().strip(), peers=peers
    )


class Launcher:
    """Starts the command, on Linux as forks of a process that has imported what members need.

    Libraries choose their kernels when they are imported, so members that train portably import their own.
    """

    def __init__(self, testnet: Testnet, terms: FederationConfig) -> None:
        self._forks = sys.platform == "linux" and not terms.training.portable
        self._modules = _modules(testnet.scenario)
        self._server: ForkServer | None = None
        self._starting = threading.Lock()

    def command(self) -> list[str]:
        """The words that start ``fedgrove``; OSError where the server of forks does not start."""
        if not self._forks:
            return COMMAND
        with self._starting:
            if self._server is not None and not self._server.alive:
                self._server.close()
                self._server = None
            self._server = self._server or ForkServer(self._modules, _environment())
            return self._server.command()

    def close(self) -> None:
        """End the server, and what it still runs."""
        with self._starting:
            if self._server is not None:
                self._server.close()


def client_jobs(layout: TestnetPaths, testnet: Testnet, launcher: Launcher) -> list[Job]:
    """The clients; the first ones stand by to do the coordinator's work."""
    jobs = []
    for number in range(1, testnet.scenario.cast.clients + 1):
        standby = [] if number <= testnet.scenario.run.standby else ["--no-standby"]
        jobs.append(_service(layout, testnet, launcher, client_name(number), "client", standby))
    return jobs


def coordinator_job(layout: TestnetPaths, testnet: Testnet, launcher: Launcher) -> Job:
    """The coordinator."""
    return _service(layout, testnet, launcher, COORDINATOR, "coordinator", [])


def explorer_job(layout: TestnetPaths, testnet: Testnet) -> Job:
    """The pages that show the federation; they hold no key."""
    place = reach(layout, testnet, 0)
    named = {
        "--rpc": chain_url(testnet),
        "--ledger": testnet.ledger,
        "--store": place.store,
        "--from-block": testnet.block,
        "--port": testnet.ports[EXPLORER],
        "--index": layout.explorer,
    }
    command = [*COMMAND, "explorer", *(str(part) for pair in named.items() for part in pair)]
    start = partial(Command, command, layout.log(EXPLORER), _environment(), layout.root)
    return Job(EXPLORER, EXPLORER, start, ends=False)


def _service(
    layout: TestnetPaths, testnet: Testnet, launcher: Launcher, name: str, role: str, options: Sequence[str]
) -> Job:
    mine = layout.participant(name)
    given = [role, *_arguments(mine), *_data(testnet, name), *options]
    log = layout.log(name)
    return Job(name, role, lambda: Command([*launcher.command(), *given], log, _environment(), mine.root))


def _data(testnet: Testnet, name: str) -> list[str]:
    """The options that say what a participant's data are; a coordinator has none where nothing is evaluated."""
    written = [f"{key}={value}" for key, value in testnet.scenario.cast.table_format.items()]
    return [*testnet.sources[name], *(word for each in written for word in ("--table-format", each))]


def _modules(scenario: Scenario) -> Sequence[str]:
    """What members need that are forked: those that train a shipped network train it themselves."""
    return (*MEMBERS, NETWORKS) if scenario.method.trains and scenario.task is None else MEMBERS


def _arguments(mine: ParticipantPaths) -> list[str]:
    named = {
        "--config": mine.config,
        "--keystore": mine.keystore,
        "--directory": mine.state,
        "--password-file": mine.password,
    }
    return [str(part) for pair in named.items() for part in pair]


def _environment() -> dict[str, str]:
    """The environment of a child: without the user's own password, and with one thread a process, as all share."""
    kept = {name: value for name, value in os.environ.items() if name != PASSWORD_VARIABLE}
    return kept | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _write_config(path: Path, config: FederationConfig, network: NetworkSettings) -> None:
    tables = config.to_tables() | {"network": dataclasses.asdict(network)}
    import tomli_w

    write_atomically(path, tomli_w.dumps(tables).encode(), 0o600)  # addresses of endpoints may hold keys to them


def _is_free(port: int) -> bool:
    """Whether nobody listens on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
