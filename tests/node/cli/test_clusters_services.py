"""Clusters by processes of their own, on a chain and Kubo nodes; clients and the coordinator are killed in each stage.

Takes minutes, so it is not in the default run: ``pytest -m processes``.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL

import numpy as np
import pytest

from fedgrove.chain.face.founding import read_deployment
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import AnvilNetwork, anvil, connect
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.cli.reach import open_store
from fedgrove.node.devnet.members import COORDINATOR, client_name
from fedgrove.node.devnet.testnet.control import down, look
from fedgrove.node.devnet.testnet.identity import Identity
from fedgrove.node.devnet.testnet.layout import Testnet, TestnetPaths, read_record
from fedgrove.node.devnet.testnet.pacer import Pacer
from fedgrove.node.devnet.testnet.processes import chain_url, reach
from fedgrove.node.devnet.testnet.supervisor import ENDED, FAILED
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.partition import partition
from fedgrove.node.learning.settings import PartitionSettings
from fedgrove.node.methods.procfl.standing import ClusterStanding
from fedgrove.node.methods.terms import load_config
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.step import name_clients
from fedgrove.node.status.federation import ClusterStageReader
from tests import warm
from tests.node.cli.test_bad_input import fedgrove
from tests.node.cli.test_services import WINDOWS, in_toml

SECONDS = 3600
CLIENTS, ROUNDS, SEATS = 8, 8, 3
CLUSTERING = f"procfl, seats = {SEATS}, global_share = 0.8, tolerance = 0.1"
OPTIONS = ("--clients", CLIENTS, "--rounds", ROUNDS, "--strategy", "fedavg", "--seed", 1, "--block-seconds", 0.5)
ATTACKERS = (1, 3, 5)
"""Of the first group, which has four members; by the number of their process."""
GOOD_ROUNDS = 2
"""Of training, before the attack."""

pytestmark = pytest.mark.processes


class Watched:
    """A testnet, looked at from outside, whose processes can be killed."""

    def __init__(self, layout: TestnetPaths, ledger: Ledger) -> None:
        self.layout = layout
        self.testnet: Testnet = read_record(layout)
        self.terms, place = load_config(layout.config)
        self.view = LedgerView(ledger)
        ledger_place = (ledger.chain_id, ledger.address)
        self.reader = ClusterStageReader(self.terms, open_store(layout.config, place), ledger_place)
        self.killed: list[tuple[str, str]] = []

    def stage(self) -> ClusterStanding:
        self.view.refresh()
        return self.reader.read(self.view)["clusters"]

    def number(self, name: str) -> int:
        """A client's number on the ledger, where it stands in the order in which they came."""
        return self.view.rounds.member(self.testnet.accounts[name]).client

    def name(self, number: int) -> str:
        account = self.view.rounds.members[number].account
        return next(name for name, each in self.testnet.accounts.items() if each == account)

    def kill(self, name: str, stage: str) -> None:
        """SIGKILL, if it runs."""
        one = next(each for each in look(self.layout).kept if each.name == name)
        if one.state == "running" and Identity(one.pid, one.started).send(SIGKILL):
            self.killed.append((stage, name))

    def was_killed(self, kind: str, stage: str) -> bool:
        return any(stage == each and name.startswith(kind) for each, name in self.killed)

    def poison(self, name: str) -> None:
        """Give a client wrong labels, and the process that knew the right ones an end."""
        path = self.layout.participant(name).data
        with np.load(path) as arrays:
            wrong = {"x_train": arrays["x_train"], "y_train": 9 - arrays["y_train"]}
        np.savez(path.with_name("wrong.npz"), **wrong)
        os.replace(path.with_name("wrong.npz"), path)
        self.kill(name, "attack")


@contextmanager
def watched(layout: TestnetPaths) -> Iterator[Watched]:
    testnet = read_record(layout)
    with connect(chain_url(testnet), testnet.chain_id) as network:
        yield Watched(layout, Ledger(network, read_deployment(network, testnet.ledger, testnet.block), None))


def until_ended(layout: TestnetPaths, each: Callable[[], None]) -> None:
    """Do something again and again until the federation has ended."""
    deadline = time.monotonic() + SECONDS
    while (now := look(layout)) is not None and now.phase != ENDED:
        assert now.phase != FAILED and time.monotonic() < deadline, now
        each()
        time.sleep(0.2)


def wage(made: Watched) -> Callable[[], None]:
    """Kill, in the first round of each stage, one who is yet to commit, and the coordinator when all have."""
    attackers = set(map(client_name, ATTACKERS))

    def each() -> None:
        told = made.stage()
        current = made.view.rounds.latest
        if current is None or current.end is not None:
            return
        while told.trained == GOOD_ROUNDS and attackers:
            made.poison(attackers.pop())
        if told.awaited and not made.was_killed("client", told.stage):
            made.kill(made.name(told.awaited[0]), told.stage)
        if current.releases and not made.was_killed(COORDINATOR, told.stage):
            made.kill(COORDINATOR, told.stage)

    return each


def test_clusters_outlast_kills_in_every_stage_and_expel_who_poisons_them(tmp_path):
    layout = TestnetPaths(tmp_path / "testnet")
    up = [*warm.command(), "network", "up", "--no-explorer", "--method", CLUSTERING]
    try:
        subprocess.run([*up, *map(str, OPTIONS)], cwd=tmp_path, check=True, timeout=SECONDS)
        with watched(layout) as made:
            until_ended(layout, wage(made))
            end = made.stage()
            by_number = {made.number(client_name(number)): number for number in range(1, CLIENTS + 1)}
        expelled = {by_number[client] for client in end.expelled}
        assert expelled and expelled <= set(ATTACKERS)  # half of a cluster is judged at a time, and drawn by lot
        groups = {frozenset(by_number[client] for client in members) for members in end.clusters}
        assert groups == {frozenset({1, 3, 5, 7} - expelled), frozenset({2, 4, 6, 8})}
        stages = {"blind", "answer", "labels", "train", "show", "vote"}
        assert all(made.was_killed(kind, stage) for kind in ("client", COORDINATOR) for stage in stages)
        shown = fedgrove("status", "--config", str(layout.config), cwd=tmp_path)
        assert (
            f"round: {ROUNDS + 3} of {ROUNDS + 3}" in shown.stdout
            and f"expelled: {name_clients(end.expelled)}" in shown.stdout
        )
        audited = audit(layout, tmp_path)
        assert audited.returncode == 0, audited.stderr
    finally:
        down(layout)


def audit(layout: TestnetPaths, place: Path):
    testnet = read_record(layout)
    where = ("--rpc", chain_url(testnet), "--ledger", testnet.ledger, "--store", reach(layout, testnet, 0).store)
    return fedgrove("audit", *where, cwd=place)


# --- by hand, as docs/run-a-client.md describes -----------------------------------------------------------------------

NAMES = ("founder", *(f"member-{number}" for number in range(1, 7)), "late")
TERMS = """
[federation]
name = "by hand"
rounds = 4
[model]
name = "small-cnn"
input_shape = [1, 8, 8]
classes = 10
[training]
epochs = 1
learning_rate = 0.05
[strategy]
name = "fedavg"
[membership]
mode = "approved"
[procfl]
alpha = 0.5
counter = "{counter}"
signer = "{signer}"
[ledger]
{windows}
"""


class ByHand:
    """A federation of commands: members with keystores and files of their own, who share a TOML file."""

    def __init__(self, root: Path, network: AnvilNetwork) -> None:
        self.root, self.network = root, network
        self.running: dict[str, subprocess.Popen] = {}
        shown = {}
        for name in NAMES:
            assert fedgrove("keys", "new", f"{name}.json", cwd=root).returncode == 0
            shown[name] = json.loads(fedgrove("keys", "show", f"{name}.json", "--json", cwd=root).stdout)
            network.fund(shown[name]["account"], 1)
        config, founder = root / "federation.toml", shown["founder"]
        config.write_text(TERMS.format(counter=founder["mailbox"], signer=founder["account"], windows=in_toml(WINDOWS)))
        founders = ("--config", str(config), "--keystore", "founder.json")
        assert fedgrove("deploy", *founders, "--rpc", network.url, "--one-account", cwd=root).returncode == 0
        for name in NAMES[1:]:
            assert fedgrove("approve", shown[name]["account"], *founders, cwd=root).returncode == 0
        config.write_text(f'{config.read_text()}store = "disk:{root / "store"}"\n')
        self.terms, self.place = load_config(config)
        self.ledger = Ledger(network, read_deployment(network, self.place.ledger, self.place.block))
        self.pacer, self.view = Pacer(network, self.ledger), LedgerView(self.ledger)
        self._deal()

    def _deal(self) -> None:
        data = load_dataset("digits")
        train, test = data.train(), data.test()
        settings = PartitionSettings(kind="groups", groups=2)
        parts = partition(train.y, len(NAMES) - 2, settings, seed=0)
        for name, part in zip(NAMES[1:], (*parts, parts[0]), strict=True):
            np.savez(self.root / f"{name}.npz", x_train=train.x[part], y_train=train.y[part])
        np.savez(self.root / "founder.npz", x_test=test.x, y_test=test.y)

    def start(self, name: str) -> None:
        role = ("coordinator", "--members", str(len(NAMES) - 2)) if name == "founder" else ("client",)
        files = ("--config", "federation.toml", "--keystore", f"{name}.json", "--data", f"{name}.npz")
        command = [*warm.command(), *role, *files, "--directory", name]
        secret = {**os.environ, "FEDGROVE_PASSWORD": "secret password"}
        with (self.root / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(command, cwd=self.root, env=secret, stdout=log, stderr=log)

    def until(self, done: Callable[[], bool], hurry: bool = True) -> None:
        """Let them work; ``hurry`` skips blocks for which everybody would only wait."""
        deadline = time.monotonic() + SECONDS
        while not done():
            assert time.monotonic() < deadline, self.view.rounds.latest
            if hurry:
                self.pacer.step()
            self.view.refresh()
            time.sleep(0.2)


def test_members_find_each_other_by_hand_and_who_comes_later_is_in_no_cluster(tmp_path):
    with anvil(block_seconds=0.4) as network:
        made = ByHand(tmp_path, network)
        try:
            for name in NAMES[:-1]:
                made.start(name)
            made.until(lambda: len(made.view.rounds.rounds) == 3)  # two rounds in which they compared
            made.running["founder"].kill()  # or rounds would end before another process has begun
            made.running["founder"].wait()
            made.start("late")
            made.until(lambda: len(made.view.rounds.members) == len(NAMES) - 1, hurry=False)
            made.start("founder")
            made.until(lambda: all(process.poll() is not None for process in made.running.values()))
            assert {name: process.returncode for name, process in made.running.items()} == dict.fromkeys(NAMES, 0)
            ledger = (made.ledger.chain_id, made.ledger.address)
            told = ClusterStageReader(made.terms, DiskStore(tmp_path / "store"), ledger).read(made.view)["clusters"]
            assert sorted(map(len, told.clusters)) == [3, 3] and told.trained == 2
            late = len(NAMES) - 1
            assert late in made.view.rounds.latest.commits and late not in told.acting
            where = ("--rpc", network.url, "--ledger", made.place.ledger, "--store", f"disk:{tmp_path / 'store'}")
            assert fedgrove("audit", *where, cwd=tmp_path).returncode == 0
        finally:
            for process in made.running.values():
                if process.poll() is None:
                    process.kill()
                    process.wait()
