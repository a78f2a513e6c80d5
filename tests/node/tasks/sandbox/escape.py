"""A place with things worth stealing, workers that run attempts on it, and workers that lack one defence."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedgrove.node.base.tensors import Layout
from fedgrove.node.tasks.sandbox import attached, launch
from fedgrove.node.tasks.sandbox.faults import JobFailed, JobOutOfMemory, JobRaised, JobTimedOut
from fedgrove.node.tasks.sandbox.limits import JobLimits
from fedgrove.node.tasks.sandbox.modes import contained_fault, strict_fault
from fedgrove.node.tasks.sandbox.settings import Mode, Visible
from fedgrove.node.tasks.sandbox.worker import Reply, Worker

SCRIPT = "fedgrove.node.tasks.sandbox.script:run"
MIB = 2**20
TIGHT = JobLimits(seconds=60, memory=512 * MIB, scratch=8 * MIB, threads=40, descriptors=64)
MODEL = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(2, dtype=np.float32)}
LAYOUT = Layout.of(MODEL)
NOBODY = 65534
# How the kernel says no, where an attempt is not killed; any other fault is one of the attempt itself.
REFUSALS = (
    "PermissionError",
    "FileNotFoundError",
    "OSError",
    "ProcessLookupError",
    "can't start new thread",
    "not allowed to raise",
)
WARM = "import sys; from fedgrove.node.tasks.sandbox.warm import main; main(int(sys.argv[1]))"


def require(mode: Mode) -> None:
    """Skip a test where this system has no such mode."""
    fault = {Mode.STRICT: strict_fault, Mode.CONTAINED: contained_fault, Mode.OFF: lambda: None}[mode]()
    if fault:
        pytest.skip(f"no {mode} sandbox: {fault}")


class Place:
    """What is outside the sandbox, and what attempts are told of it. A victim runs as the account that jobs have."""

    def __init__(self, folder: Path):
        self.folder, self._name = folder, f"fedgrove-{os.getpid()}-{folder.name}"
        for name in ("home", "open", "data", "task"):
            (folder / name).mkdir()
            (folder / name).chmod(0o777)
        for name in ("home/keystore.json", "open/removable", "data/data.txt", "data/other.txt"):
            (folder / name).write_text("a secret")
            self._give(folder / name)
        self.task = folder / "task" / "escaping.py"
        shutil.copy(Path(__file__).parents[3] / "adversary" / "escaping.py", self.task)
        self._give(self.task)
        self.visible = Visible(folder / "task", folder / "data" / "data.txt")
        self._victim: subprocess.Popen | None = None
        self._sockets = [socket.create_server(("127.0.0.1", 0)), self._unix("open/socket"), self._unix(None)]

    def header(self, function: str) -> dict:
        """What an attempt is told."""
        return {
            "file": "escaping.py",
            "function": function,
            "keystore": str(self.folder / "home" / "keystore.json"),
            "secret": "a secret",
            "open": str(self.folder / "open"),
            "data": str(self.visible.data),
            "victim": self.victim().pid,
            "marker": "SECRET_OF_THE_VICTIM",
            "command": "86400.125",
            "port": self._sockets[0].getsockname()[1],
            "unix": str(self.folder / "open" / "socket"),
            "abstract": self._name,
        }

    def victim(self) -> subprocess.Popen:
        """A process of the jobs' account, another one where an attempt has ended the last."""
        if self._victim is None or self._victim.poll() is not None:
            identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
            self._victim = subprocess.Popen(
                ["/usr/bin/sleep", "86400.125"], env={"SECRET_OF_THE_VICTIM": "1"}, **identity
            )
        return self._victim

    def close(self) -> None:
        if self._victim is not None:
            self._victim.kill()
            self._victim.wait()
        for one in self._sockets:
            one.close()

    def _give(self, path: Path) -> None:
        path.chmod(0o600 if path.parent.name == "home" else 0o666)
        if os.getuid() == 0:
            os.chown(path, NOBODY, NOBODY)

    def _unix(self, name: str | None) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.folder / name) if name else f"\0{self._name}")
        if name:
            (self.folder / name).chmod(0o777)
        listener.listen(100)
        return listener


def run(worker: Worker, header: dict, **options) -> Reply:
    """Run an attempt with a model and expect none back, unless told otherwise."""
    return worker.run(SCRIPT, header, MODEL, **options)


def escapes(worker: Worker, header: dict) -> bool:
    """Whether an attempt succeeds; if not, it must be the sandbox that stopped it."""
    try:
        return bool(run(worker, header).header["escaped"])
    except (JobFailed, JobOutOfMemory, JobTimedOut):
        return False
    except JobRaised as fault:
        assert any(word in str(fault) for word in REFUSALS), fault
        return False


def is_fine(worker: Worker, place: Place) -> bool:
    """Whether the worker does a job as it should."""
    reply = run(worker, place.header("fine"), expected=LAYOUT)
    equal = all(np.array_equal(reply.tensors[name], MODEL[name]) for name in MODEL)
    return equal and json.loads(json.dumps(reply.header)) == {"sum": 17.0}


@contextlib.contextmanager
def mutant(mutation: str, mode: Mode, place: Place, limits: JobLimits = TIGHT) -> Iterator[Worker]:
    """A worker in whose warm process ``mutation`` (Python) has run: it takes one defence away."""

    def python(*arguments: str) -> list[str]:
        return launch.python("-c", f"{mutation}\n{WARM}", arguments[-1])

    with pytest.MonkeyPatch.context() as patch, Worker(mode, place.visible, limits) as worker:
        patch.setattr(attached, "python", python)
        worker.start()
        yield worker


assert sys.platform == "linux", "the sandbox is Linux's"
