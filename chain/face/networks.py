"""The three ways to a chain: embedded in this process, anvil as a child process, any node by its URL."""

import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from subprocess import DEVNULL

from fedgrove.chain.embedded import recursion_limit_kept
from fedgrove.chain.errors import ConnectionFailed
from fedgrove.chain.network import anvil_state
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.practice_nodes import CONSTANT_BASE_FEE
from fedgrove.chain.network.rpc import RpcNetwork

__all__ = ["AnvilNetwork", "Network", "anvil", "connect", "embedded"]

ANVIL_VARIABLE = "FEDGROVE_ANVIL"
INSTALL_ANVIL = "npm install --no-save @foundry-rs/anvil-linux-amd64@1.7.1"
START_SECONDS = 20.0
STOP_SECONDS = 10.0
INTERVAL_POLL_SECONDS = 0.05
_PACKAGED = Path("node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil")

# Becomes the program named by its arguments, after asking Linux to end it when its parent has died. Its parent may have
# died before it asked, hence the second look. A function run between fork and exec could deadlock among threads.
_DIES_WITH_PARENT = """
import ctypes, os, sys
PR_SET_PDEATHSIG = 1
parent = int(sys.argv[1])
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(sys.argv[2])) or os.getppid() != parent:
    sys.exit(1)
os.execv(sys.argv[3], sys.argv[3:])
"""


def embedded(state_file: Path | None = None) -> Network:
    """A chain in this process, in memory; ready at once, under Prague rules.

    Parameters
    ----------
    state_file : Path, optional
        Where the chain is kept with every block, and goes on from; without one it is gone in the end.

    Raises
    ------
    ChainError
        The file holds something else.
    """
    with recursion_limit_kept():  # py-evm takes a second to import
        from fedgrove.chain.embedded.evm import EmbeddedNetwork
    return EmbeddedNetwork(state_file)


connect = RpcNetwork
"""A chain behind one or more JSON-RPC endpoints."""


def anvil(
    state_file: Path | None = None,
    port: int = 0,
    timeout: float = START_SECONDS,
    block_seconds: float | None = None,
) -> "AnvilNetwork":
    """An anvil node of our own on this machine, ended with ``close`` and, on Linux, with this process.

    Parameters
    ----------
    state_file : Path, optional
        Where the chain is kept, written every second; without one it is gone in the end. A copy, ``….kept``, lies
        next to it for a node that was killed while it wrote.
    port : int
        0 takes a free one.
    block_seconds : float, optional
        Seconds between two blocks, as on a public chain; ``can_mine`` is false then. Without it each transaction makes
        a block at once.

    Raises
    ------
    ConnectionFailed
        The program is not installed, or does not answer within ``timeout`` seconds.
    """
    port = port or free_port()
    url, goes_on = f"http://127.0.0.1:{port}", state_file is not None and state_file.exists()
    process = _start(anvil_command(port, state_file, block_seconds))
    try:
        _wait_for(process, port, timeout)
        if goes_on:
            restore_block_hashes(url)
        return AnvilNetwork(url, process)
    except BaseException:
        _stop(process)
        raise


def anvil_command(port: int, state_file: Path | None = None, block_seconds: float | None = None) -> list[str]:
    """The command line of an anvil node on 127.0.0.1; the parameters are those of ``anvil``.

    One that goes on from a state file needs ``restore_block_hashes``.
    """
    # Without pruning it keeps the state of every block and fills the disk; with none kept it cannot abandon a block.
    # With CORS any web page may drive it.
    command = [str(find_anvil()), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--silent", "--prune-history", "1", "--no-cors", "--base-fee", str(CONSTANT_BASE_FEE)]
    if block_seconds is not None:
        command += ["--block-time", f"{block_seconds:.9g}"]
    if state_file is not None:
        command += ["--state", str(state_file), "--state-interval", "1"]
        # Becomes anvil under the same process id; see there.
        command = [sys.executable, "-I", "-S", str(Path(anvil_state.__file__)), str(state_file), *command]
    return command


def restore_block_hashes(url: str) -> None:
    """Make an anvil node that goes on from a state file give contracts the hashes of the blocks in it.

    Of those blocks, anvil 1.7 makes up what BLOCKHASH says (https://github.com/foundry-rs/foundry/pull/15167), and the
    ledger refuses a hash that the chain's history contradicts. It knows them again once it has abandoned a block, so it
    makes one more and abandons it. A transaction that gets into that block is lost, like those of the second before a
    kill.

    Raises ChainError: the node does not answer, or not as anvil does.
    """
    with connect(url) as node:
        node.mine()
        node.request("anvil_rollback", 1)
        # This has also set its clock back to the time of that block.
        behind = int(time.time()) - node.block_time(node.block_number())
        if behind > 0:
            node.request("evm_increaseTime", behind)


def embedded_command(port: int, state_file: Path, block_seconds: float) -> list[str]:
    """The command line of an embedded chain behind JSON-RPC on 127.0.0.1; see ``embedded.rpc_server``."""
    return [
        sys.executable,
        "-m",
        "fedgrove.chain.embedded.rpc_server",
        str(port),
        str(state_file),
        f"{block_seconds:.9g}",
    ]


class AnvilNetwork(RpcNetwork):
    """An anvil process and the connection to it; ``url`` is for others on this machine."""

    poll_seconds = 0.002

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        super().__init__(url)
        self.url = url
        self._process = process
        if not self.can_mine:
            self.poll_seconds = INTERVAL_POLL_SECONDS

    @property
    def pid(self) -> int:
        """Process id of the node."""
        return self._process.pid

    def close(self) -> None:
        """End the node."""
        super().close()
        _stop(self._process)


def find_anvil() -> Path:
    """The anvil program: FEDGROVE_ANVIL, the npm package next to the project or the working directory, or PATH."""
    named = os.environ.get(ANVIL_VARIABLE)
    on_path = shutil.which("anvil")
    roots = (Path(__file__).resolve().parents[2], Path.cwd())
    candidates = [Path(named)] if named else [root / _PACKAGED for root in roots] + ([Path(on_path)] if on_path else [])
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise ConnectionFailed(f"anvil is not installed: run `{INSTALL_ANVIL}` here, or set {ANVIL_VARIABLE} to its path.")


def has_anvil() -> bool:
    """Whether ``find_anvil`` finds one."""
    try:
        return bool(find_anvil())
    except ConnectionFailed:
        return False


def dying_with_parent(command: list[str], by: signal.Signals = signal.SIGTERM) -> list[str]:
    """A command line for a child that Linux ends, by this signal, when the thread that started it has ended."""
    if sys.platform != "linux":
        return command
    return [sys.executable, "-I", "-S", "-c", _DIES_WITH_PARENT, str(os.getpid()), str(int(by)), *command]


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a program that ends when this process does, however that ends."""
    command = dying_with_parent(command)
    started: queue.SimpleQueue[subprocess.Popen[bytes] | OSError] = queue.SimpleQueue()

    def run() -> None:
        try:
            # In a group of its own: Ctrl-C is for this process, which may still have to read the chain.
            process = subprocess.Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, process_group=0)
        except OSError as fault:
            started.put(fault)
            return
        started.put(process)
        process.wait()

    # To Linux the parent is the thread that started the process, so that thread waits until the process has ended.
    threading.Thread(target=run, name="anvil", daemon=True).start()
    process = started.get()
    if isinstance(process, OSError):
        raise process
    return process


def _wait_for(process: subprocess.Popen[bytes], port: int, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if process.poll() == anvil_state.NO_ROOM:
            raise ConnectionFailed("The disk has no room for a copy of the chain's state; make room, then try again.")
        if process.poll() is not None:
            raise ConnectionFailed(f"anvil ended with code {process.returncode}; check port {port} and its state file.")
        try:
            socket.create_connection(("127.0.0.1", port), 0.5).close()
            return
        except OSError:
            time.sleep(0.02)
    raise ConnectionFailed(f"anvil does not answer on port {port} after {timeout:.0f} s; try the embedded chain.")


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
