"""Ctrl-C, and a disk that is full, at each of the first ten moments at which a command changes a file.

Each ends with one sentence and without a traceback; what was there before is as it was; and the same command, run again
without a disturbance, does its work: nothing that was left half done is in its way.
"""

import errno
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedgrove.chain.crypto import secret_storage
from tests.node.cli.test_bad_input import fedgrove, files

MOMENTS = range(1, 11)
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
_CHANGES = ("os.rename", "os.link", "os.mkdir", "os.truncate")


@dataclass
class Disturbance:
    """What happens, in the main thread, at the n-th change of a file below a folder; 0: nothing."""

    folder: str = ""
    left: int = 0
    fault: BaseException | None = None
    met: bool = False

    def hear(self, event: str, arguments: tuple) -> None:
        """Take in an audit event of the interpreter."""
        if not self.left or threading.current_thread() is not threading.main_thread():
            return
        if self._changes(event, arguments):
            self.left -= 1
            if not self.left:
                self.met = True
                raise self.fault

    def _changes(self, event: str, arguments: tuple) -> bool:
        if event == "open":
            path, _, flags = arguments
            written = bool(flags & (os.O_WRONLY | os.O_RDWR)) if isinstance(flags, int) else False
        elif event in _CHANGES:
            path, written = arguments[0], True
        else:
            return False
        return written and isinstance(path, str | bytes) and os.path.abspath(os.fsdecode(path)).startswith(self.folder)


disturbance = Disturbance()


@pytest.fixture(scope="module", autouse=True)
def listening():
    """A hook cannot be removed, so it is one for all tests, and does nothing between them."""
    sys.addaudithook(disturbance.hear)
    yield
    disturbance.left = 0


@contextmanager
def disturbed(folder: Path, moment: int, fault: BaseException) -> Iterator[None]:
    disturbance.folder, disturbance.fault, disturbance.met = str(folder), fault, False
    disturbance.left = moment
    try:
        yield
    finally:
        disturbance.left = 0


@pytest.fixture
def place(tmp_path, run, monkeypatch):
    """A folder with a keystore, a task and a run; passwords are derived quickly."""
    honest = secret_storage.seal
    monkeypatch.setattr(secret_storage, "seal", lambda secret, password, cost: honest(secret, password, 2))
    assert fedgrove("keys", "new", "alice.json", cwd=tmp_path).returncode == 0
    assert fedgrove("task", "new", "mine", cwd=tmp_path).returncode == 0
    assert fedgrove("task", "pack", "mine", cwd=tmp_path).returncode == 0
    (tmp_path / "table.csv").write_text("age,ill\n" + "".join(f"{30 + n},{n % 2}\n" for n in range(20)))
    os.symlink(run.directory, tmp_path / "run")
    return tmp_path


COMMANDS = [
    "keys new bob.json",
    "keys backup alice.json copy.json",
    "keys restore alice.json restored.json",
    "audit export run run.car",
    "history export run --csv tables",
    "model save run model.safetensors",
    "explorer run --export site --index index",
    "task new other",
    "task new fourth --table table.csv --target ill",
    "task pack mine --store disk:blobs",
]


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), FULL], ids=["Ctrl-C", "full"])
@pytest.mark.parametrize("line", COMMANDS)
def test_a_disturbed_command_loses_nothing_and_works_when_it_is_run_again(place, line, fault):
    before, moments = files(place), 0
    for moment in MOMENTS:
        with disturbed(place, moment, fault):
            result = fedgrove(*line.split(), cwd=place)
        if not disturbance.met:
            break
        moments += 1
        if result.returncode == 0:  # it can do without its index
            assert fault is FULL and "explorer" in line
            return
        said = result.stderr.strip().splitlines()
        assert result.returncode == (130 if isinstance(fault, KeyboardInterrupt) else 2), (moment, result)
        assert said and said[-1].startswith("fedgrove: ") and "Traceback" not in result.stderr, (moment, result)
        now = files(place)
        assert {path: now.get(path) for path in before} == before, moment
    assert moments
    if disturbance.met:
        result = fedgrove(*line.split(), cwd=place)
    assert result.returncode == 0, result
    assert set(files(place)) > set(before)
