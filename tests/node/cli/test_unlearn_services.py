"""K-means by processes of their own, on a chain and a Kubo node; one is killed while it forgets.

Takes a minute or more, so it is not in the default run: ``pytest -m processes``.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from fedgrove.chain.crypto.keys import Keys, save
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import anvil
from fedgrove.chain.network.history import capture
from fedgrove.chain.records import Closed, Withdrawn
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.devnet.kubo.local_node import LocalKubo
from fedgrove.node.devnet.testnet import control
from fedgrove.node.devnet.testnet.layout import TestnetPaths, read_record
from fedgrove.node.devnet.testnet.pacer import Pacer
from fedgrove.node.methods.terms import fetch_method, load_config, with_first_model
from fedgrove.node.protocol.founding import found
from tests import warm
from tests.node.cli.test_bad_input import fedgrove
from tests.node.cli.test_services import WINDOWS, in_toml

SECONDS = 600
CLIENTS = 4
NAMES = ("coordinator", *(f"client-{number}" for number in range(1, CLIENTS + 1)))

pytestmark = pytest.mark.processes


class Processes:
    """Coordinator and clients, started and killed at will."""

    def __init__(self, root: Path, network, store_url: str) -> None:
        self.root, self.network = root, network
        self.keys = {name: Keys.generate() for name in NAMES}
        for each in self.keys.values():
            network.fund(each.address, 1)
        founder = self.keys["coordinator"]
        members = [keys.address for name, keys in self.keys.items() if name != "coordinator"]
        (root / "federation.toml").write_text(
            "[federation]\nrounds = 50\n[kmeans]\nk = 2\ndimensions = 2\nstep = 0.05\ngather_blocks = 5\n"
            f"[membership]\nmembers = {json.dumps(members)}\n[ledger]\n{in_toml(WINDOWS)}\n"
        )
        config = with_first_model(load_config(root / "federation.toml")[0])
        self.deployment = found(network, founder.account, config, founder.address)
        self.ledger = Ledger(network, self.deployment)
        self.pacer = Pacer(network, self.ledger)
        self.running: dict[str, subprocess.Popen] = {}
        rng = np.random.default_rng(0)
        for name, keys in self.keys.items():
            (root / f"{name}.password").write_text(f"password of {name}\n")
            save(root / f"{name}.json", keys, f"password of {name}", cost=1 << 12)
            np.savez(root / f"{name}.npz", points=rng.normal(rng.uniform(-0.5, 0.5, 2), 0.1, (30, 2)).clip(-1, 1))
        with (root / "federation.toml").open("a") as file:
            file.write(
                f'[start]\nmodel = "{config.start.model}"\n'
                f'[network]\nrpc = "{network.url}"\nregistry = "{self.deployment.registry}"\n'
                f'ledger = "{self.deployment.ledger}"\nblock = {self.deployment.block}\nstore = "{store_url}"\n'
            )

    def member(self, name: str) -> list[str]:
        files = {"--config": "federation.toml", "--keystore": f"{name}.json", "--password-file": f"{name}.password"}
        return [part for option, file in files.items() for part in (option, str(self.root / file))]

    def start(self, name: str) -> None:
        kind = name.partition("-")[0]
        more = ["--data", str(self.root / f"{name}.npz")] if kind == "client" else ["--members", str(CLIENTS)]
        with (self.root / f"{name}.log").open("ab") as log:
            command = [*warm.command(), kind, *self.member(name), "--directory", str(self.root / name), *more]
            self.running[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def unlearn(self, name: str, *options: str) -> subprocess.CompletedProcess:
        command = [*warm.command(), "unlearn", *self.member(name), "--state", str(self.root / name), *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)

    def until(self, done) -> None:
        """Let them work until something is on the ledger; the pacer skips what everybody would only wait for."""
        deadline = time.monotonic() + SECONDS
        while not done():
            for name, process in self.running.items():
                ended_well = process.poll() in (None, 0, -signal.SIGKILL)  # 0: it has left the federation
                assert ended_well, (self.root / f"{name}.log").read_text()[-2000:]
            assert time.monotonic() < deadline, self.ledger.records()[-3:]
            self.pacer.step()
            time.sleep(0.2)

    def closed(self) -> list[Closed]:
        return [record for record in self.ledger.records() if isinstance(record, Closed)]

    def kill(self, name: str) -> None:
        os.kill(self.running[name].pid, signal.SIGKILL)
        self.running[name].wait()


def test_processes_cluster_forget_and_survive(tmp_path):
    with LocalKubo(tmp_path / "kubo") as kubo, anvil(block_seconds=0.4) as network:
        made = Processes(tmp_path, network, kubo.url)
        try:
            for name in NAMES:
                made.start(name)
            made.until(lambda: len(made.closed()) == 1)

            asked = made.unlearn("client-2", "--points", "1,2,3", "--json")
            assert asked.returncode == 0 and json.loads(asked.stdout)["client"], asked.stderr
            made.kill("client-2")
            assert made.unlearn("client-2", "--points", "1,2,3").returncode == 0  # asked twice, recorded once
            made.start("client-2")
            made.until(lambda: len(made.closed()) == 2)
            paper = tmp_path / "certificate.json"
            certified = made.unlearn("client-2", "--points", "1,2,3", "--certificate", str(paper))
            assert certified.returncode == 0 and "without the 3 points" in certified.stdout, certified.stderr

            assert made.unlearn("client-3", "--all").returncode == 0
            made.until(lambda: len(made.closed()) == 3)
            made.running["client-3"].wait(SECONDS)
            assert made.running["client-3"].returncode == 0  # it has left, and ends

            history, store = capture(network, made.deployment), KuboStore(kubo.url)
            records = history.records()
            assert sum(isinstance(record, Withdrawn) for record in records) == 2
            assert Auditor(chain_facts(history), records, store).run().verdict == "verified"
            opened = next(record for record in records if type(record).__name__ == "RoundOpened")
            method = fetch_method(store, opened.config_digest)
            states = [method.fetch_model(store, record.model_digest) for record in made.closed()]
            everybody, gone = (1, 2, 3, 4), made.ledger.client_of(made.keys["client-3"].address).client
            left = tuple(number for number in everybody if number != gone)  # numbered as they registered
            assert [state.clients for state in states] == [everybody, everybody, left]
            assert all(8 < state.counts.total <= 120 for state in states)
            audited = subprocess.run(
                [
                    *(*warm.command(), "audit", "--rpc", network.url, "--ledger", made.deployment.ledger),
                    *("--store", kubo.url, "--certificate", str(paper)),
                ],
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
            assert audited.returncode == 0, audited.stderr
        finally:
            for process in made.running.values():
                if process.poll() is None:
                    process.kill()
                    process.wait()


def test_a_testnet_clusters_and_forgets(tmp_path):
    np.savez(tmp_path / "mine.npz", points=np.random.default_rng(0).uniform(-1, 1, (90, 2)))
    options = ("--clients", "3", "--k", "2", "--dataset", "mine.npz", "--store", "disk", "--block-seconds", "0.3")
    layout = TestnetPaths(tmp_path / "testnet")

    def until_round(number: int) -> None:
        deadline = time.monotonic() + SECONDS
        while (stands := control.federation(read_record(layout))).round < number or stands.phase != "closed":
            assert time.monotonic() < deadline, stands
            time.sleep(1)

    try:
        up = [*warm.command(), "network", "up", "--no-explorer", *options]
        subprocess.run(up, cwd=tmp_path, check=True, timeout=SECONDS)
        until_round(1)
        mine = layout.participant("client-02")
        member = ("--config", mine.config, "--keystore", mine.keystore, "--password-file", mine.password)
        ask = ("unlearn", *map(str, member), "--state", str(mine.state), "--points", "0,4")
        assert fedgrove(*ask, cwd=tmp_path).returncode == 0
        until_round(2)
        certified = fedgrove(*ask, "--certificate", "certificate.json", cwd=tmp_path)
        assert certified.returncode == 0 and "without the 2 points" in certified.stdout, certified.stderr
    finally:
        control.down(layout)
