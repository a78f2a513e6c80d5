"""A federation of processes that learns a task, on Kubo: members whose task fails, one that has not approved it."""

import csv
import json
import subprocess
import time
from dataclasses import dataclass, field, replace

import pytest

from fedgrove.chain.crypto.keys import Keys, save
from fedgrove.chain.face.founding import read_deployment
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import AnvilNetwork, anvil, free_port
from fedgrove.chain.network.history import capture
from fedgrove.chain.records import Closed, Committed, Drawn
from fedgrove.ipfs.kubo import open_kubo
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.devnet.kubo.local_node import LocalKubo
from fedgrove.node.devnet.testnet.pacer import Pacer
from fedgrove.node.protocol.content import Metrics
from tests import warm
from tests.ipfs.kubo_nodes import needs_kubo, quiet
from tests.node.cli.test_services import SECONDS, WINDOWS, Processes, in_toml
from tests.node.learning.tasks.examples import table

TASK = """
import time

import numpy as np
import torch
from torch import nn
import fedgrove as fg

class Points(fg.Task):
    def model(self):
        return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))

    def data(self, source):
        table = np.loadtxt(source, delimiter=",", dtype=np.float32)
        self.first = float(table[0, 0])
        pair = (table[:, :4], table[:, 4].astype(np.int64))
        return fg.Data(pair, held_out=pair)

    def loss(self, output, target):
        if self.first == 1000:
            raise RuntimeError("this member has no luck")
        time.sleep(3600 if self.first == 3000 else 0)
        return super().loss(output, target) * (float("nan") if self.first == 2000 else 1.0)
"""
MEMBERS = 6
FAULTS = {4: 1000.0, 5: 2000.0, 6: 3000.0}
"""Members whose task raises, diverges, and hangs; the last is killed meanwhile, and started again."""
TASK_SECONDS = 12


@dataclass
class TaskProcesses(Processes):
    """The same, founded by the command, with a task, on the store at ``url``."""

    url: str = ""
    kind: str = "csv"
    command: list[str] = field(default_factory=warm.command)
    seconds: float = 300

    @classmethod
    def found_with_task(cls, network: AnvilNetwork, root, store: str) -> "TaskProcesses":
        names = ["coordinator", *(f"client-{n}" for n in range(1, MEMBERS + 1)), "stranger"]
        keys = {name: Keys.generate() for name in names}
        for number, (name, each) in enumerate(keys.items()):
            network.fund(each.address, 1)
            (root / f"{name}.password").write_text(f"the password of {name}\n")
            save(root / f"{name}.json", each, f"the password of {name}", cost=1 << 12)
            write_table(root / f"{name}.csv", number, FAULTS.get(number))
        (root / "task").mkdir()
        (root / "task" / "task.py").write_text(TASK)
        bundle = run("task", "pack", root / "task", "--store", store).strip().splitlines()[-1]
        settings = replace(WINDOWS, commit_window=90)  # one needs most of it
        members = [each.address for name, each in keys.items() if name.startswith("client")]
        (root / "federation.toml").write_text(
            f'[federation]\nrounds = 1\n[task]\nbundle = "{bundle}"\n[strategy]\nname = "fedavg"\n'
            # They train nothing unless their sandboxes pin kernels.
            f"[training]\nportable = true\n[masking]\ncolluders = 0.0\n[ledger]\n{in_toml(settings)}\n"
            f"[membership]\nmembers = {json.dumps(members)}\n"
        )
        run(
            *("deploy", "--config", root / "federation.toml", "--keystore", root / "coordinator.json"),
            *("--password-file", root / "coordinator.password", "--rpc", network.url),
            *("--task", root / "task", "--store", store),
        )
        told = (root / "federation.toml").read_text()
        (root / "client-6.toml").write_text(told.replace("[network]", f"[network]\ntask_seconds = {TASK_SECONDS}"))
        ledger = told.split('ledger = "')[1].split('"')[0]
        deployment = read_deployment(network, ledger)
        return cls(network, root, keys, deployment, Pacer(network, Ledger(network, deployment)), url=store)

    def look_at_journals(self) -> None:
        """Called at every turn of waiting: time passes, as somebody is awaited who will never commit."""
        time.sleep(0.4)
        self.network.mine(1)

    @property
    def bundle(self) -> str:
        return (self.root / "federation.toml").read_text().split('bundle = "')[1].split('"')[0]

    def kill_in_training(self, name: str) -> None:
        """Send SIGKILL when the member says that it trains, and start it again."""
        deadline = time.monotonic() + self.seconds
        while not any("it is training" in line["event"] for line in self.lines(name)):
            assert time.monotonic() < deadline, self.lines(name)[-3:]
            self.turn()
        self.running[name].kill()
        self.running[name].wait()
        self.start(name)

    def approve(self, name: str, bundle: str) -> None:
        """As the member would, for its client's directory."""
        run(
            *("task", "approve", bundle, "--keystore", self.root / f"{name}.json", "--directory", self.root / name),
            *("--password-file", self.root / f"{name}.password", "--store", self.url),
        )


def run(*arguments) -> str:
    result = subprocess.run([*warm.command(), *map(str, arguments)], capture_output=True, text=True, timeout=SECONDS)
    assert result.returncode == 0, result.stderr
    return result.stdout


def write_table(path, seed, first):
    x, y = table(40, seed)
    if first is not None:
        x[0, 0] = first
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([*map(float, row), int(label)] for row, label in zip(x, y, strict=True))


pytestmark = [needs_kubo, quiet]


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    root = tmp_path_factory.mktemp("federation")
    with anvil() as network, LocalKubo(root / "kubo", port=free_port()) as node:
        made = TaskProcesses.found_with_task(network, root, node.url)
        try:
            for name in list(made.keys)[:-1]:
                made.approve(name, made.bundle)
                made.start(name, *(("--members", str(MEMBERS)) if name == "coordinator" else ()))
            made.kill_in_training("client-6")
            assert made.wait("coordinator") == 0, made.lines("coordinator")[-3:]
            for number in range(1, MEMBERS + 1):
                assert made.wait(f"client-{number}") == 0
            yield made
        finally:
            made.stop_all()


def test_members_whose_task_fails_send_the_model_unchanged_and_are_counted(federation):
    history = capture(federation.network, federation.deployment)
    records = history.records()
    (closed,) = [each for each in records if isinstance(each, Closed)]
    names = {keys.address: name for name, keys in federation.keys.items()}
    trained = {names[each.at.author] for each in records if isinstance(each, Committed)}
    assert len({each.client for each in records if isinstance(each, Drawn)}) == MEMBERS
    assert trained == {f"client-{number}" for number in range(1, MEMBERS + 1)}
    store = open_kubo(federation.url)
    assert Metrics.from_bytes(store.fetch(closed.metrics_digest, 1 << 20)).raised == len(FAULTS)
    assert Auditor(chain_facts(history), records, store).run().verdict == "verified"


def test_a_task_that_fails_is_logged_with_its_line_or_its_time_and_no_word_of_its_own(federation):
    said = {number: [line["event"] for line in federation.lines(f"client-{number}")] for number in FAULTS}
    sentences = {
        4: "the task raised RuntimeError (task.py, line 21)",
        5: "the training left the finite numbers",
        6: f"the task's code ran for more than {TASK_SECONDS} s and was stopped",
    }
    for number, sentence in sentences.items():
        assert any(sentence in event for event in said[number]), said[number]
    assert not any("no luck" in event for event in said[4])


def client(root, name: str, data, config: str = "federation.toml") -> str:
    """What a client says that stops at once."""
    command = [
        *warm.command(),
        *("client", "--config", root / config, "--keystore", root / f"{name}.json"),
        *("--password-file", root / f"{name}.password", "--data", data, "--directory", root / name),
    ]
    result = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=SECONDS)
    assert result.returncode == 2 and "Traceback" not in result.stderr, result.stderr
    return result.stderr.splitlines()[-1]


def test_a_member_that_has_not_approved_stops_with_one_sentence(federation):
    assert "fedgrove task approve" in client(federation.root, "stranger", federation.root / "stranger.csv")


def test_a_member_with_another_bundle_than_that_of_the_terms_is_refused(federation, tmp_path):
    """Approved or not: members agree on one task, by its CID."""
    root = federation.root
    (tmp_path / "task.py").write_text(TASK + "\n")
    other = run("task", "pack", tmp_path, "--store", federation.url).strip().splitlines()[-1]
    federation.approve("stranger", other)
    assert f"has not approved the task {federation.bundle}" in client(root, "stranger", root / "stranger.csv")
    (root / "other.toml").write_text((root / "federation.toml").read_text().replace(federation.bundle, other))
    told = client(root, "stranger", root / "stranger.csv", "other.toml")
    assert "is not the federation of" in told and "its terms" in told


def test_data_that_lie_with_keys_passwords_or_journals_are_not_shown_to_a_task(federation, tmp_path):
    root = federation.root
    assert "a task's code would see" in client(root, "client-1", root)
    journal = client(root, "client-1", root / "client-1")
    assert "a task's code would see" in journal and "journal" in journal


def test_deploying_another_folder_than_the_terms_name_is_refused(federation, tmp_path):
    root = federation.root
    text = (root / "federation.toml").read_text()
    (tmp_path / "federation.toml").write_text(text.split("\n[start]")[0])
    (tmp_path / "task.py").write_text(TASK + "\n")
    command = [
        *("deploy", "--config", tmp_path / "federation.toml", "--keystore", root / "coordinator.json"),
        *("--password-file", root / "coordinator.password", "--rpc", federation.network.url),
    ]
    for more, sentence in (
        ([], "give its folder with --task"),
        (["--task", tmp_path / "task.py", "--store", f"disk:{tmp_path / 'store'}"], "correct task.bundle"),
    ):
        result = subprocess.run(
            [*warm.command(), *map(str, [*command, *more])], capture_output=True, text=True, timeout=60
        )
        assert result.returncode == 2 and sentence in result.stderr, result.stderr


def test_a_strategy_that_was_asked_for_is_not_replaced(tmp_path):
    """Without a shared set a task's default is FedAvg; who asks for FedAom is told what it needs."""
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "task.py").write_text(TASK)
    write_table(tmp_path / "data.csv", 1, None)
    command = ["demo", "--task", tmp_path / "task", "--data", tmp_path / "data.csv", "--clients", "4", "--rounds", "1"]
    asked = [*warm.command(), *map(str, command), "--strategy", "fedaom"]
    result = subprocess.run(asked, capture_output=True, text=True, timeout=SECONDS)
    assert result.returncode == 2 and "task.shared must name a file of the task" in result.stderr, result.stderr
    assert json.loads(run(*command, "--json"))["config"]["strategy"]["name"] == "fedavg"
