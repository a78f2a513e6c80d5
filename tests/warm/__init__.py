"""The ``fedgrove`` command as a process that need not import its libraries first.

Importing them takes one to two CPU seconds, and the tests run the command hundreds of times. Here a server imports them
once, and each command is a fork of it, with the arguments, environment, folder and descriptors of whoever gave it.
Signals for the command reach the fork, and it ends with the fork's status.

A command of its own process stays where a test is about the process: how it starts, which modules it imports, which
environment torch reads when it is imported. README.md and the guide for two machines are run like that as well.
"""

import atexit
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENT = Path(__file__).with_name("client.py")


def command() -> list[str]:
    """The words that start ``fedgrove``, to be followed by its arguments."""
    # Without site-packages Python starts in a few milliseconds.
    return [sys.executable, "-I", "-S", str(CLIENT), _server()]


def install(folder: Path) -> Path:
    """Write ``fedgrove`` as a program into a folder, which is returned, for a shell's PATH."""
    program = folder / "fedgrove"
    words = " ".join(f"'{word}'" for word in command())
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    return folder


@cache
def _server() -> str:
    """The socket of this process's server, which ends with it."""
    folder = tempfile.TemporaryDirectory(prefix="fedgrove-")
    socket = str(Path(folder.name) / "socket")
    # The server's end is the end of its input, whatever becomes of this process.
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.warm.server", socket], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdin and server.stdout
    if server.stdout.readline() != b"ready\n":
        raise RuntimeError("the server of warm commands did not start")
    owner = os.getpid()

    def stop() -> None:
        if os.getpid() == owner and server.stdin:
            server.stdin.close()
            server.wait()
            folder.cleanup()

    atexit.register(stop)
    return socket
