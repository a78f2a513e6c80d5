"""A process is known by its number and its start, so that no other is ever signalled."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from node.testnet.identity import Identity


@pytest.fixture
def process():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        yield child
        child.kill()


def test_a_running_process_is_alive_until_it_is_killed(process):
    identity = Identity.of(process.pid)
    assert identity.alive and not identity.wait(0)
    assert identity.send(signal.SIGKILL)
    assert identity.wait(10)
    # It has not been waited for yet: its entry is still in the table of processes.
    assert os.path.exists(f"/proc/{process.pid}") and not identity.alive


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
