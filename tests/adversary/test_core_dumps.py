"""Somebody who gets a core dump of a node, or runs as the same user, and looks for keys in its memory.

Who attacks: whoever makes a node crash (a bug in a library will do) and can read where core dumps go, a crash report
that is sent away included; or a program of the same user that reads another process's memory. It wants the storage key,
the account's key, the secrets of the round.

What stops it: every command forbids core dumps and the reading of its memory before it loads anything.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedgrove.chain.crypto.keys import Keys, save
from fedgrove.chain.face.networks import free_port
from fedgrove.node.base.memory import keep_private
from fedgrove.node.cli.listing import all_commands
from fedgrove.node.devnet.testnet.identity import Identity

NOBODY = 65534
PASSWORD = "of a test"
GET_DUMPABLE = 3  # prctl(2)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc and prctl are Linux's")
# The mutant is the same command without the mend: this replaces it before the command line runs.
WITHOUT = """
from fedgrove.node.base import memory
memory.keep_private = lambda: None
from fedgrove.node.cli.main import run
run()
"""


def coordinator(tmp_path, mutant: bool) -> tuple[subprocess.Popen, Keys]:
    """A coordinator that has loaded its keys and waits for a chain that is away; core dumps are allowed to it."""
    keys = Keys.generate()
    save(tmp_path / "keystore.json", keys, PASSWORD, cost=2)
    (tmp_path / "federation.toml").write_text(
        f'[model]\nname = "geyer-mlp"\ninput_shape = [1, 28, 28]\nclasses = 10\n'
        f'[network]\nrpc = ["http://127.0.0.1:{free_port()}"]\n'
        f'ledger = "{keys.address}"\nstore = "disk:store"\npatience_seconds = 600.0\n'
    )
    command = ["coordinator", "--config", "federation.toml", "--keystore", "keystore.json", "--directory", "state"]
    process = subprocess.Popen(
        [sys.executable, *(["-c", WITHOUT] if mutant else ["-m", "fedgrove.node.cli"]), *command],
        cwd=tmp_path,
        env={**os.environ, "FEDGROVE_PASSWORD": PASSWORD, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2),
    )
    assert b'"level": "warning"' in process.stderr.readline()  # the chain is away: the keys are loaded
    return process, keys


def crash(tmp_path, mutant: bool) -> tuple[bool, list[Path]]:
    """Whether a crash of the coordinator dumped core, and the core files that hold its storage key."""
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        pytest.skip("core dumps are forbidden to this process for good")
    process, keys = coordinator(tmp_path, mutant)
    process.send_signal(signal.SIGSEGV)
    _, status = os.waitpid(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    cores = [path for path in tmp_path.iterdir() if path.name.startswith("core") and keys.storage in path.read_bytes()]
    return os.WCOREDUMP(status), cores


def test_a_node_that_crashes_leaves_no_core_dump(tmp_path):
    assert crash(tmp_path, mutant=False) == (False, [])


@pytest.mark.mutants
def test_without_the_mend_the_storage_key_is_in_the_core_dump(tmp_path):
    dumped, cores = crash(tmp_path, mutant=True)
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip() if sys.platform == "linux" else "core"
    assert dumped
    if pattern != "core":
        pytest.skip(f"core dumps go to {pattern}, where this test does not look")
    assert cores


def is_private() -> bool:
    """Whether this process is one of which nobody gets the memory."""
    dumpable = ctypes.CDLL(None).prctl(GET_DUMPABLE, 0, 0, 0, 0)
    return resource.getrlimit(resource.RLIMIT_CORE) == (0, 0) and not dumpable


@LINUX
@pytest.mark.parametrize("name", all_commands())
def test_no_command_is_without_it(name):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        from fedgrove.node.cli.main import run

        sys.argv = ["fedgrove", name, "--help"]
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            run()
        except SystemExit:
            os.write(writer, b"1" if is_private() else b"0")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1) == b"1"


def holder(mend) -> tuple[int, int, int]:
    """A process of a user without rights that holds a key: its id, and where in its memory the key lies."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        import ctypes

        try:
            if os.getuid() == 0:
                os.setuid(NOBODY)
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # a change of user forbids dumps, too: as a fresh program, it may
            mend()
            key = ctypes.create_string_buffer(b"a secret key of thirty-two bytes")
            os.write(writer, ctypes.addressof(key).to_bytes(8))
            signal.pause()
        finally:
            os._exit(0)
    return child, int.from_bytes(os.read(reader, 8)), len(b"a secret key of thirty-two bytes")


def stolen(mend) -> bytes:
    """What another process of the same user reads there."""
    pid, place, length = holder(mend)
    reader, writer = os.pipe()
    thief = os.fork()
    if not thief:
        try:
            if os.getuid() == 0:
                os.setuid(NOBODY)
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                memory.seek(place)
                os.write(writer, memory.read(length))
        finally:
            os._exit(0)
    os.waitpid(thief, 0)
    os.close(writer)
    found = os.read(reader, length)
    # Whoever looks after processes still can: see node.devnet.testnet.identity.
    assert Identity.of(pid).alive and Identity.of(pid).send(signal.SIGKILL)
    os.waitpid(pid, 0)
    return found


@LINUX
def test_no_other_process_of_the_user_reads_the_memory():
    assert stolen(keep_private) == b""


@pytest.mark.mutants
@LINUX
def test_without_the_mend_any_process_of_the_user_does():
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if scope.exists() and scope.read_text().strip() != "0":
        pytest.skip("this system lets no process read another's memory anyhow")
    assert stolen(lambda: None) == b"a secret key of thirty-two bytes"


@LINUX
def test_a_process_without_rights_still_finds_its_own_children(tmp_path):
    """What the supervisor of a testnet needs: who is alive, and signals that reach the right process."""
    child = os.fork()
    if not child:
        try:
            if os.getuid() == 0:
                os.setuid(NOBODY)
            keep_private()
            own = os.fork()
            if not own:
                keep_private()
                time.sleep(60)
            identity = Identity.of(own)
            sound = identity.alive and identity.send(signal.SIGTERM)
            os.waitpid(own, 0)
            os._exit(0 if sound and not identity.alive else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
