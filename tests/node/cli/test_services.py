"""`fedgrove client` and `fedgrove coordinator` as processes: they share a chain, a store, and nothing else."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import requests

from fedgrove.chain.crypto.keys import Keys, save
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import AnvilNetwork, anvil
from fedgrove.chain.network.history import capture
from fedgrove.chain.records import Closed, Committed, Drawn
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.cli.services import _warn_of_copies
from fedgrove.node.devnet.terms import terms_on
from fedgrove.node.devnet.testnet.pacer import Pacer
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.methods.terms import load_config, with_first_model
from fedgrove.node.protocol.founding import found as deploy_federation
from fedgrove.node.protocol.journal import Journal, JournalDamaged
from fedgrove.node.roles.logs import ServiceLog
from fedgrove.node.scenario.reading import scenario
from tests import warm

COMMAND = [sys.executable, "-c", "from fedgrove.node.cli.main import run; run()"]
SECONDS = 120
# Long, for busy machines: the pacer skips what is not needed.
WINDOWS = LedgerSettings(
    seed_delay=1,
    draw_window=60,
    seal_window=60,
    share_window=60,
    commit_window=120,
    recover_window=80,
    coordinator_grace=20,
    max_clients=8,
)


@dataclass
class Processes:
    """A federation of files and processes on one anvil."""

    network: AnvilNetwork
    root: Path
    keys: dict[str, Keys]
    deployment: object
    pacer: Pacer
    running: dict[str, subprocess.Popen] = field(default_factory=dict)
    round_secrets: set[str] = field(default_factory=set)
    kind: str = "npz"
    command: list[str] = field(default_factory=warm.command)
    seconds: float = SECONDS

    @classmethod
    def found(
        cls, network: AnvilNetwork, root: Path, clients: int, rounds: int, portable: bool = False, **settings
    ) -> "Processes":
        """Deploy a federation for new keys, and write what its members need."""
        dataset = load_dataset("digits")
        plan = scenario(clients=clients, rounds=rounds, strategy="fedavg", portable=portable)
        config = terms_on(plan, dataset, b"")
        keys = {name: Keys.generate() for name in ("coordinator", *(f"client-{n}" for n in range(1, clients + 1)))}
        members = [each.address for name, each in keys.items() if name != "coordinator"]
        config = replace(config, ledger=WINDOWS).with_members(members)
        for each in keys.values():
            network.fund(each.address, 1)
        founder = keys["coordinator"]
        place = root / "federation.toml"
        place.write_text(_terms(config))
        terms = with_first_model(load_config(place)[0])
        deployment = deploy_federation(network, founder.account, terms, founder.address)
        settings.setdefault("command", COMMAND if portable else warm.command())
        made = cls(network, root, keys, deployment, Pacer(network, Ledger(network, deployment)), **settings)
        train, test = dataset.train(), dataset.test()
        np.savez(root / "coordinator.npz", x_test=test.x, y_test=test.y)
        for number, name in enumerate(list(keys)[1:]):
            np.savez(root / f"{name}.npz", x_train=train.x[number::20], y_train=train.y[number::20])
        for name, each in keys.items():
            (root / f"{name}.password").write_text(f"the password of {name}\n")
            save(root / f"{name}.json", each, f"the password of {name}", cost=1 << 12)
        place.write_text(_terms(config) + _network(terms, made))
        return made

    def start(self, name: str, *more: str, log: str | None = None) -> subprocess.Popen:
        """Start the coordinator or a client; its log goes to a file of its name."""
        kind = name.split("-")[0]
        arguments = [
            *("--config", self.config(name), "--keystore", self.root / f"{name}.json"),
            *("--password-file", self.root / f"{name}.password", "--data", self.root / f"{name}.{self.kind}"),
            *("--directory", self.root / name),
        ]
        with (self.root / f"{log or name}.log").open("ab") as file:
            process = subprocess.Popen([*self.command, kind, *map(str, arguments), *more], stderr=file, stdout=file)
        self.running[log or name] = process
        return process

    def config(self, name: str) -> Path:
        """A participant's TOML file: its own, if it has one."""
        own = self.root / f"{name}.toml"
        return own if own.exists() else self.root / "federation.toml"

    def wait(self, name: str) -> int:
        """Wait for a process to end by itself, and look at the journals meanwhile."""
        deadline = time.monotonic() + self.seconds
        while self.running[name].poll() is None:
            assert time.monotonic() < deadline, f"{name} does not end: {self.lines(name)[-3:]}"
            self.turn()
        return self.running[name].returncode

    def turn(self) -> None:
        """Let some time pass."""
        self.look_at_journals()
        self.pacer.step()
        time.sleep(0.1)

    def look_at_journals(self) -> None:
        """Collect the secrets of the rounds while they are there, with the keys that only a test has."""
        for name, keys in self.keys.items():
            if not (self.root / name / "journal").is_dir():
                continue
            for number in (1, 2):
                try:
                    note = Journal(self.root / name / "journal", keys.storage).note(number)
                except JournalDamaged:
                    continue
                if note is not None:
                    self.round_secrets |= {note.secrets[start : start + 64] for start in (0, 64, 128)}

    def lines(self, name: str) -> list[dict]:
        """The log of a process, line by line."""
        return [json.loads(line) for line in (self.root / f"{name}.log").read_text().splitlines()]

    def stop_all(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.kill()
                process.wait()


def in_toml(settings: LedgerSettings) -> str:
    """The lines of the table ``[ledger]``."""
    return "\n".join(f"{name} = {str(value).lower()}" for name, value in asdict(settings).items())


def _terms(config) -> str:
    return f"""
[federation]
name = "{config.federation.name}"
rounds = {config.federation.rounds}
[model]
name = "{config.network.name}"
input_shape = {list(config.network.input_shape)}
classes = {config.network.classes}
[training]
epochs = 1
learning_rate = 0.05
[strategy]
name = "fedavg"
[membership]
members = {json.dumps(config.membership.members)}
[ledger]
{in_toml(config.ledger)}
"""


def _network(terms, made: Processes) -> str:
    return f"""
[start]
model = "{terms.start.model}"
[network]
rpc = "{made.network.url}"
chain_id = {made.deployment.chain_id}
registry = "{made.deployment.registry}"
ledger = "{made.deployment.ledger}"
block = {made.deployment.block}
store = "disk:{made.root / "store"}"
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two rounds of five clients. Client 4 leaves after one, client 2 is stopped and comes back."""
    root = tmp_path_factory.mktemp("services")
    with anvil(block_seconds=0.4) as network:
        # Portable: clients' processes train nothing unless they have pinned their kernels.
        made = Processes.found(network, root, clients=5, rounds=2, portable=True)
        port = _free_port()
        try:
            made.start("coordinator", "--members", "5", "--metrics-port", str(port))
            for number in (1, 2, 3, 5):
                made.start(f"client-{number}")
            made.start("client-4", "--once")
            assert made.wait("client-4") == 0
            metrics = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=5).text
            made.running["client-2"].send_signal(signal.SIGTERM)
            assert made.wait("client-2") == 0
            made.start("client-2", log="client-2-again")
            for name in ("client-1", "client-2-again", "client-3", "client-5", "coordinator"):
                assert made.wait(name) == 0, (root / f"{name}.log").read_text()[-2000:]
            history = capture(network, made.deployment)
            history.verify()
            yield made, history, metrics
        finally:
            made.stop_all()


def test_the_history_that_the_processes_left_is_verified(finished):
    made, history, _ = finished
    verdict = Auditor(chain_facts(history), history.records(), DiskStore(made.root / "store")).run()
    assert verdict.verdict == "verified", verdict
    records = history.records()
    assert [record.round for record in records if isinstance(record, Closed)] == [1, 2]
    assert len([record for record in records if isinstance(record, Committed) and record.round == 1]) == 5


def test_a_client_that_was_told_once_takes_part_in_one_round(finished):
    made, history, _ = finished
    client = next(line["client"] for line in made.lines("client-4") if "client" in line)
    assert {r.round for r in history.records() if isinstance(r, Drawn) and r.client == client} == {1}
    assert made.lines("client-4")[-1]["event"] == "ended: one round is over"


def test_logs_are_json_and_say_who_did_what_when(finished):
    made, _, _ = finished
    lines = made.lines("client-1")
    assert all({"time", "level", "event", "role"} <= set(line) for line in lines)
    acted = [line["event"] for line in lines if line.get("round") == 1 and "gas" in line]
    # Enough others may have released before: then the round closes without this client's shares.
    assert acted[:4] == ["drew", "shared", "committed", "published its masked update"]
    last = ["released shares", "published the shares that it released"]
    assert acted[4:] in ([], last[:1], last)
    assert all(line["client"] for line in lines if "gas" in line and line["round"])
    waits = [line for line in lines if line["event"].startswith("waits for")]
    assert waits and all("until" in line and line["phase"] for line in waits)


def test_metrics_count_what_the_coordinator_did(finished):
    _, _, metrics = finished
    values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line and not line.startswith("#"))
    assert float(values["fedgrove_round"]) >= 1
    assert float(values['fedgrove_acts_total{phase="close",role="coordinator"}']) >= 1
    assert float(values['fedgrove_gas_total{role="coordinator"}']) > 100_000


def test_no_log_holds_a_secret(finished):
    made, _, _ = finished
    text = "".join(path.read_text() for path in made.root.glob("*.log")).lower()
    secrets = set(made.round_secrets)
    for name, keys in made.keys.items():
        own = (bytes(keys.account.key), keys.vrf, keys.mailbox, keys.storage)
        secrets |= {f"the password of {name}", *(secret.hex() for secret in own)}
    assert len(made.round_secrets) >= 4 * 3
    assert not [secret for secret in secrets if secret.lower() in text]


def test_the_journals_are_empty_when_the_rounds_are_over(finished):
    made, _, _ = finished
    assert not list((made.root / "client-1" / "journal").glob("0*.sealed"))


def refused(made: Processes, *arguments: str) -> str:
    """Run a command that must end with one sentence and exit code 2."""
    done = subprocess.run([*warm.command(), *arguments], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("fedgrove: "), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_another_account_is_no_coordinator(finished):
    made, _, _ = finished
    said = refused(
        made,
        "coordinator",
        *("--config", str(made.root / "federation.toml"), "--keystore", str(made.root / "client-1.json")),
        *("--password-file", str(made.root / "client-1.password"), "--directory", str(made.root / "other")),
    )
    assert "run with --standby" in said


def test_data_that_do_not_fit_the_model_are_refused(finished, tmp_path):
    made, _, _ = finished
    np.savez(tmp_path / "wide.npz", x_train=np.zeros((3, 1, 9, 9), np.float32), y_train=np.arange(3))
    said = refused(
        made,
        "client",
        *("--config", str(made.root / "federation.toml"), "--keystore", str(made.root / "client-1.json")),
        *("--password-file", str(made.root / "client-1.password"), "--data", str(tmp_path / "wide.npz")),
        *("--directory", str(tmp_path / "c")),
    )
    assert "1x9x9" in said


def test_a_directory_belongs_to_one_process(finished, tmp_path):
    made, _, _ = finished
    from fedgrove.node.base.files import exclusive

    with exclusive(tmp_path / "mine"):
        said = refused(
            made,
            "client",
            *("--config", str(made.root / "federation.toml"), "--keystore", str(made.root / "client-1.json")),
            *("--password-file", str(made.root / "client-1.password"), "--data", str(made.root / "client-1.npz")),
            *("--directory", str(tmp_path / "mine")),
        )
    assert "another process is using" in said


@pytest.mark.parametrize("kind", ["", "btrfs"])
def test_a_client_says_where_what_it_destroys_may_stay(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("fedgrove.node.cli.services.keeps_overwritten", lambda directory: kind)
    stream = io.StringIO()
    _warn_of_copies(ServiceLog("client", stream), tmp_path)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["level"] for line in lines] == (["warning"] if kind else [])
    assert all(f"is on {kind}" in line["event"] for line in lines)


def test_secrets_are_not_in_the_arguments_of_a_process(finished):
    made, _, _ = finished
    assert not any("password of" in " ".join(map(str, process.args)) for process in made.running.values())
    assert "FEDGROVE_PASSWORD" not in os.environ
