"""A process is known by its number and its start, so that no other is ever signalled."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fedgrove.node.devnet.testnet.identity import Identity


@pytest.fixture
def process():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        yield child
        child.kill()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_running_process_is_alive_until_it_is_killed(process):
    identity = Identity.of(process.pid)
    assert identity.alive and not identity.wait(0)
    assert identity.send(signal.SIGKILL)
    assert identity.wait(10)
    # It has not been waited for yet: its entry is still in the table of processes.
    assert os.path.exists(f"/proc/{process.pid}") and not identity.alive


def test_a_process_whose_main_thread_went_first_is_alive_until_its_last_thread_ends():
    """Linux calls it a zombie by then, but it still holds its locks: a testnet's directory could not be removed."""
    program = (
        "import ctypes, sys, threading\n"
        "threading.Thread(target=sys.stdin.read).start()\n"
        "print(flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as child:
        child.stdout.readline()
        identity = Identity.of(child.pid)
        while state(child.pid) != "Z":
            time.sleep(0.01)
        assert identity.alive and not identity.wait(0)
        child.stdin.close()
        assert identity.wait(10)


def test_a_process_that_has_the_number_of_another_is_never_signalled(process):
    earlier = replace(Identity.of(process.pid), started="before/1")
    assert not earlier.alive
    assert not earlier.send(signal.SIGKILL)
    assert process.poll() is None


def test_a_process_that_is_gone_is_known_to_be_gone(process):
    identity = Identity.of(process.pid)
    process.kill()
    process.wait()
    assert not identity.alive and identity.wait(0)
    assert not identity.send(signal.SIGTERM)
    with pytest.raises(ProcessLookupError):
        Identity.of(process.pid)


def test_a_name_with_brackets_and_spaces_does_not_confuse(tmp_path):
    program = tmp_path / "odd) S 1 (name"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as child:
        identity = Identity.of(child.pid)
        assert identity.alive and identity == Identity.of(child.pid)
        child.kill()
