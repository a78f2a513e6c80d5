"""The ``fedgrove`` command as a process that need not import its libraries first (Linux).

Importing them takes one to two CPU seconds, and a testnet starts the command for each of its members at the same time.
Here a server imports them once, and each command is a fork of it, with the arguments, environment, folder and
descriptors of whoever gave it. Signals for the command reach the fork, and it ends with the fork's status.

server   imports the libraries, and forks
client   has the server run a command, and ends as that does
"""

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedgrove.node.base.sockets import socket_root

_CLIENT = Path(__file__).with_name("client.py")


class ForkServer:
    """A server of forks, which ends with this process, and all that it runs with it.

    Parameters
    ----------
    modules : sequence of str
        What commands need.
    environment : mapping, optional
        The server's; what libraries read when they are imported they read there.
    program : str
        The module that a fork runs.
    """

    def __init__(
        self,
        modules: Sequence[str],
        environment: Mapping[str, str] | None = None,
        program: str = "fedgrove.node.cli",
    ) -> None:
        # For this user alone; the server removes it.
        folder = Path(tempfile.mkdtemp(prefix="fedgrove-", dir=socket_root()))
        self._socket = str(folder / "socket")
        # The server's end is the end of its input, whatever becomes of this process.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fedgrove.node.devnet.forks.server", self._socket, program, *modules],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for this process
        )
        self._ready, self._asking = False, threading.Lock()

    @property
    def alive(self) -> bool:
        """Whether it can still run commands."""
        return self._process.poll() is None

    def command(self) -> list[str]:
        """The words that start ``fedgrove``, to be followed by its arguments.

        Raises
        ------
        OSError
            There is no server.
        """
        with self._asking:
            assert self._process.stdout is not None
            self._ready = self._ready or self._process.stdout.readline() == b"ready\n"
        if not self._ready:
            self._process.wait()
            raise OSError("the server of forks did not start")
        # Without site-packages Python starts in a few milliseconds.
        return [sys.executable, "-I", "-S", str(_CLIENT), self._socket]

    def close(self) -> None:
        """End the server and all that it runs."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        shutil.rmtree(Path(self._socket).parent, ignore_errors=True)  # the server may have been killed
