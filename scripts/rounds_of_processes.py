"""A federation of processes on a task, measured: each role's peak of memory, seconds, bytes of an upload.

For the scripts that measure rounds. It runs the commands that people use (``fedgrove deploy``, ``client``,
``coordinator``, ``audit``), on an anvil of its own and one store.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import tomli_w

from fedgrove.chain.crypto.keys import Keys, save
from fedgrove.chain.face.founding import read_deployment
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import AnvilNetwork, anvil
from fedgrove.chain.network.history import capture
from fedgrove.chain.records import Closed, Committed
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.devnet.kubo.local_node import LocalKubo
from fedgrove.node.devnet.testnet.pacer import Pacer
from fedgrove.node.methods.terms import config_of
from fedgrove.node.tasks.bundle import draft

COMMAND = (sys.executable, "-c", "from fedgrove.node.cli.main import run; run()")
COORDINATOR = "coordinator"
PASSWORD = "for a measurement"
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 3600.0
_WINDOW = 120  # blocks: on this chain each transaction makes one, and the pacer skips what nobody needs
_PHASES = ("draw", "seal", "share", "commit", "recover")


@dataclass(frozen=True)
class Work:
    """What a federation is to learn.

    Attributes
    ----------
    task : Path
        The folder.
    sources : tuple of Path
        Each client's.
    test : Path or None
        The coordinator's.
    tables : mapping
        Of the terms: ``task``, ``training``, ``strategy``, ``federation``, ``masking``.
    """

    task: Path
    sources: tuple[Path, ...]
    tables: Mapping[str, Mapping[str, Any]]
    test: Path | None = None


@dataclass
class Watched:
    """A process and the jobs of its sandbox: the largest peaks of memory that were seen, in bytes, and when."""

    process: subprocess.Popen
    own: int = 0
    jobs: dict[int, int] = field(default_factory=dict)
    seen: dict[int, tuple[float, float]] = field(default_factory=dict)

    def look(self) -> None:
        """Read the peaks once more; of a job that is forked, too."""
        self.own = max(self.own, _peak(self.process.pid))
        now = time.monotonic()
        for pid in _jobs(self.process.pid):
            self.jobs[pid] = max(self.jobs.get(pid, 0), _peak(pid))
            self.seen[pid] = (self.seen.get(pid, (now, now))[0], now)

    @property
    def job(self) -> int:
        """The largest peak of a job."""
        return max(self.jobs.values(), default=0)

    def longest(self, count: int) -> float:
        """Seconds of this many jobs that took longest: those that train."""
        return sum(sorted((last - first for first, last in self.seen.values()), reverse=True)[:count])


def measure(work: Work, root: Path, kubo: bool = False) -> dict[str, Any]:
    """Hold a federation in ``root`` and audit it; figures by name, sizes in bytes."""
    with ExitStack() as stack:
        network = stack.enter_context(anvil())
        store, place = stack.enter_context(_store(root, kubo))
        names = _found(network, work, root, place)
        running = {name: stack.enter_context(_started(root, name, work)) for name in names}
        ledger = _wait(network, root, running)
        audited, audit = _audited(network, ledger, place)
        history = capture(network, read_deployment(network, ledger))
        records = history.records()
        upload = next(store.root(each.digest).size for each in records if isinstance(each, Committed))
        model = next(store.root(each.model_digest).size for each in records if isinstance(each, Closed))
    clients = [running[name] for name in names if name != COORDINATOR]
    opened, closed = _times(root, "opened a round"), _times(root, "closed the round")
    seconds = sum(closed) - sum(opened[: len(closed)])
    training = max(each.longest(len(closed)) for each in clients)
    return {
        "audit": audit["verdict"],
        "rounds": _rounds(root),
        "seconds of a round": round(seconds / len(closed), 1),
        "seconds of training": round(training / len(closed), 1),
        "share outside training": round(1 - training / seconds, 3),
        "model bytes": model,
        "upload bytes": upload,
        "client peak": max(each.own for each in clients),
        "training peak": max(each.job for each in clients),
        "coordinator peak": running[COORDINATOR].own,
        "evaluation peak": running[COORDINATOR].job,
        "audit peak": audited.own,
        "audit seconds": audit["seconds"],
        "seconds by phase": _phases(root),
    }


def _found(network: AnvilNetwork, work: Work, root: Path, store: str) -> list[str]:
    """Keys, terms, contracts and approvals; the names of the processes to start."""
    names = [COORDINATOR, *(f"client-{number}" for number, _ in enumerate(work.sources, 1))]
    accounts = {}
    for name in names:
        keys = Keys.generate()
        accounts[name] = keys.address
        network.fund(keys.address, 1)
        save(root / f"{name}.json", keys, PASSWORD, cost=1 << 12)
    (root / "password").write_text(PASSWORD + "\n")
    _command("task", "pack", work.task, "--store", store)
    tables = {**work.tables, "task": {"bundle": str(draft(work.task).cid), **work.tables.get("task", {})}}
    tables["ledger"] = {f"{phase}_window": _WINDOW for phase in _PHASES} | {"coordinator_grace": 20, "max_clients": 64}
    config = root / "federation.toml"
    members = [account for name, account in accounts.items() if name != COORDINATOR]
    terms = config_of(tables)[0].with_members(members).to_tables()
    config.write_text(tomli_w.dumps({**tables, **{name: terms[name] for name in ("membership", "ledger")}}))
    identity = ("--password-file", root / "password", "--keystore")
    founder = (*identity, root / f"{COORDINATOR}.json")
    _command("deploy", "--config", config, *founder, "--rpc", network.url, "--task", work.task, "--store", store)
    for name in names:
        where = (*identity, root / f"{name}.json", "--directory", root / name, "--store", store)
        _command("task", "approve", tables["task"]["bundle"], *where)
    return names


@contextmanager
def _started(root: Path, name: str, work: Work) -> Iterator[Watched]:
    """A role as a process; ended with the block."""
    arguments = ["--config", root / "federation.toml", "--keystore", root / f"{name}.json"]
    arguments += ["--password-file", root / "password", "--directory", root / name]
    if name == COORDINATOR:
        arguments += ["--members", len(work.sources), *(["--data", work.test] if work.test else [])]
    else:
        arguments += ["--data", work.sources[int(name.partition("-")[2]) - 1]]
    with (root / f"{name}.log").open("wb") as log:
        command = [*COMMAND, name.partition("-")[0], *map(str, arguments)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield Watched(process)
    finally:
        process.terminate()
        process.wait()


def _wait(network: AnvilNetwork, root: Path, running: Mapping[str, Watched]) -> str:
    """Let time pass on the chain until every process has ended by itself; the ledger's address."""
    ledger = (root / "federation.toml").read_text().split('ledger = "')[1].split('"')[0]
    pacer = Pacer(network, Ledger(network, read_deployment(network, ledger)))
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while any(each.process.poll() is None for each in running.values()):
        if time.monotonic() > deadline or any(each.process.poll() for each in running.values()):
            raise SystemExit(f"a process failed, or the round takes too long: see the logs in {root}")
        for each in running.values():
            each.look()
        pacer.step()
        time.sleep(_POLL_SECONDS)
    return ledger


def _audited(network: AnvilNetwork, ledger: str, store: str) -> tuple[Watched, dict[str, Any]]:
    began = time.monotonic()
    command = [*COMMAND, "audit", "--rpc", network.url, "--ledger", ledger, "--store", store, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    watched = Watched(process)
    while process.poll() is None:
        watched.look()
        time.sleep(_POLL_SECONDS)
    assert process.stdout is not None
    report = json.loads(process.stdout.read())
    return watched, {"verdict": report["verdict"], "seconds": round(time.monotonic() - began, 1)}


@contextmanager
def _store(root: Path, kubo: bool) -> Iterator[tuple[ContentStore, str]]:
    if not kubo:
        yield DiskStore(root / "store"), f"disk:{root / 'store'}"
        return
    with LocalKubo(root / "kubo") as node:
        yield KuboStore(node.url, 300), node.url


def _command(*arguments: object) -> None:
    report = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True)
    if report.returncode:
        raise SystemExit(report.stderr)


def _lines(root: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / f"{name}.log").read_text().splitlines()]


def _rounds(root: Path) -> list[str]:
    """What the coordinator said of each round that it closed."""
    return [line["event"] for line in _lines(root, COORDINATOR) if line["event"].startswith("closed")]


def _times(root: Path, event: str) -> list[float]:
    """When the coordinator did something, in seconds since 1970."""
    return [_time(line) for line in _lines(root, COORDINATOR) if line["event"].startswith(event)]


def _time(line: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(line["time"]).timestamp()


def _phases(root: Path) -> dict[str, float]:
    """Seconds of all rounds by the phase that the coordinator waited or acted in."""
    found: dict[str, float] = {}
    for line, following in pairwise(line for line in _lines(root, COORDINATOR) if "phase" in line):
        phase = (following if "gas" in following else line)["phase"]
        found[phase] = round(found.get(phase, 0.0) + _time(following) - _time(line), 1)
    return found


def _peak(pid: int) -> int:
    """The most memory that a process had resident, in bytes; 0 when it has gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), 0)


def _jobs(pid: int) -> Iterator[int]:
    """The jobs among the processes below one: what the warm process of a sandbox forked."""
    try:
        warm = "sandbox.warm" in _read(pid, "cmdline") and not _read(pid, "comm").startswith("bwrap")
        for thread in os.listdir(f"/proc/{pid}/task"):
            for child in map(int, _read(pid, f"task/{thread}/children").split()):
                yield from (child,) if warm else _jobs(child)
    except (FileNotFoundError, ProcessLookupError):
        return  # it has ended


def _read(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
