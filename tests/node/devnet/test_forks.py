"""Forks stand for processes of their own: their words, ends and signals are those of the command, and none is left."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from fedgrove.node.devnet.forks import ForkServer

ENDLESS = ("simulate", "--clients", "2", "--rounds", "100000", "--executor", "inline")


@pytest.fixture
def server():
    made = ForkServer(["fedgrove.node.cli.simulate", "fedgrove.node.simulation.work"])
    yield made
    made.close()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def begun(server: ForkServer) -> tuple[subprocess.Popen, int]:
    """An endless command at work, and its fork's process."""
    command = subprocess.Popen([*server.command(), *ENDLESS], stderr=subprocess.PIPE, text=True)
    assert command.stderr is not None and "round" in command.stderr.readline()
    (fork,) = children(server._process.pid)
    return command, fork


def gone(pid: int) -> bool:
    """Whether a process has ended; nobody may have asked for its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_words_status_and_folder_are_those_of_the_command(server, tmp_path):
    (tmp_path / "scenario.toml").write_text("[scenario]\nclients = 0\n")
    words = [*server.command(), "simulate", "--scenario", "scenario.toml"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "scenario.clients must be" in done.stderr and done.stdout == ""
    done = subprocess.run([*server.command(), "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"{version('fedgrove')}\n")


def test_a_signal_reaches_the_fork_whose_status_is_the_commands(server):
    command, fork = begun(server)
    command.send_signal(signal.SIGINT)
    assert command.wait(60) == 130 and "stopped" in command.stderr.read()
    assert gone(fork)
    command, fork = begun(server)
    command.terminate()
    assert command.wait(60) == -signal.SIGTERM and gone(fork)


def test_a_fork_ends_with_a_command_that_is_killed_and_a_command_with_its_fork(server):
    command, fork = begun(server)
    command.kill()
    until(lambda: gone(fork))
    command, fork = begun(server)
    os.kill(fork, signal.SIGKILL)
    assert command.wait(60) == -signal.SIGKILL


def test_all_end_with_the_server_however_that_ends():
    killed = ForkServer(["fedgrove.node.simulation.work"])
    command, fork = begun(killed)
    assert killed.alive
    killed._process.kill()
    assert command.wait(60) == -signal.SIGKILL
    until(lambda: gone(fork))
    assert not killed.alive
    closed = ForkServer(["fedgrove.node.simulation.work"])
    command, fork = begun(closed)
    folder = Path(closed.command()[-1]).parent
    assert folder.stat().st_mode & 0o77 == 0
    closed.close()
    assert command.wait(60) == -signal.SIGKILL
    until(lambda: gone(fork))
    assert not folder.exists()


def test_a_server_that_does_not_start_is_a_fault_that_is_told(capfd):
    missing = ForkServer(["fedgrove.node.nothing"])
    with pytest.raises(OSError, match="did not start"):
        missing.command()
    assert not missing.alive and "No module named" in capfd.readouterr().err
    missing.close()
    assert not Path(missing._socket).parent.exists()


def test_its_socket_finds_room_however_long_the_path_for_temporary_files_is(tmp_path, monkeypatch):
    long = tmp_path / (110 * "x")
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    made = ForkServer(["json"])
    try:
        assert subprocess.run([*made.command(), "--version"], capture_output=True, timeout=60).returncode == 0
    finally:
        made.close()
