"""A real hardhat node, as people start it for a local testnet: ``npx hardhat node`` in this repository."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedgrove.chain.face.networks import dying_with_parent, free_port

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "node_modules" / ".bin" / "hardhat"
START_SECONDS = 120


@contextmanager
def hardhat_node() -> Iterator[str]:
    """The node's URL; where hardhat is not installed, and not in CI, the test is skipped."""
    if not PROGRAM.exists() and not os.environ.get("CI"):
        pytest.skip("hardhat is not installed: it comes with `npm ci`")
    port = free_port()
    # Its program is a script; to be ended with this process it must be what is started.
    program = [str(shutil.which("node")), str(PROGRAM.resolve())]
    command = dying_with_parent([*program, "node", "--hostname", "127.0.0.1", "--port", str(port)])
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(process, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _wait_for(process: subprocess.Popen, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, f"hardhat ended with code {process.returncode}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"hardhat does not listen on port {port} after {START_SECONDS} s")
