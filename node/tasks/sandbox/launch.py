"""Start a program in a sandbox by its mode, with a clean environment and no descriptor but one."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from fedgrove.node.tasks.sandbox import bubblewrap, runtime
from fedgrove.node.tasks.sandbox.faults import SandboxUnavailable
from fedgrove.node.tasks.sandbox.settings import SCRATCH, Mode, Visible

# Where memory runs out, the kernel ends jobs before the node. It is said by a shell, which the program then replaces:
# inside of some sandboxes /proc is read-only.
_KILLED_FIRST = ("/bin/sh", "-c", 'echo 1000 2>/dev/null >/proc/self/oom_score_adj; exec "$@"', "sh")
_PATIENCE = 5.0  # seconds for a process that is asked to end


@dataclass(frozen=True)
class Launched:
    """A process in a sandbox: as it was started, the first one inside (a descriptor), and its standard error."""

    process: subprocess.Popen[bytes]
    first: int
    complaints: IO[bytes]

    def complaint(self) -> str:
        """The last line that it wrote to its standard error; nothing once it is closed."""
        try:
            return _last_line(self.complaints)
        except ValueError:
            return ""

    def close(self) -> None:
        """Wait a little for its end, else kill it with everything that it started."""
        try:
            self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            signal.pidfd_send_signal(self.first, signal.SIGKILL)  # all of its namespace ends with it
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.first)
        self.complaints.close()


def python(*arguments: str) -> list[str]:
    """This interpreter, without the current folder, without user packages of its own search, writing no bytecode."""
    return [sys.executable, "-s", "-P", "-B", *arguments]


def launch(
    mode: Mode,
    visible: Visible,
    program: Sequence[str],
    inherited: Sequence[socket.socket] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Launched:
    """Start a program; ``SandboxUnavailable`` where bubblewrap does not.

    ``environment`` holds the variables that it gets in addition to ``runtime.environment``.
    """
    descriptors = [one.fileno() for one in inherited]
    if mode is Mode.STRICT:
        return _in_namespaces(visible, program, descriptors, environment)
    home = Path("/nonexistent") if mode is Mode.CONTAINED else Path(tempfile.gettempdir())
    process, complaints = _popen(program, descriptors, home, environment)
    return Launched(process, os.pidfd_open(process.pid), complaints)


def _in_namespaces(
    visible: Visible, program: Sequence[str], descriptors: list[int], environment: Mapping[str, str]
) -> Launched:
    info_fd, info_write = os.pipe()
    blocked, release = os.pipe()
    held = blocked if os.getuid() == 0 else None
    try:
        command = bubblewrap.command(visible, program, info_write, held)
        try:
            process, complaints = _popen(command, [*descriptors, info_write, blocked], SCRATCH / "home", environment)
        finally:
            os.close(info_write)
        try:
            pid = bubblewrap.started(info_fd)
            launched = Launched(process, os.pidfd_open(pid), complaints)
            if held is not None:
                bubblewrap.map_accounts(pid)
                os.write(release, b"x")
        except (EOFError, OSError) as fault:
            process.kill()
            process.wait()
            raise SandboxUnavailable(_last_line(complaints) or str(fault)) from None
        return launched
    finally:
        for descriptor in (info_fd, blocked, release):
            os.close(descriptor)


def _popen(
    command: Sequence[str], descriptors: list[int], home: Path, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 - Launched.close closes it
    process = subprocess.Popen(
        [*_KILLED_FIRST, *command],
        cwd="/",
        env={**runtime.environment(home), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=complaints,
        pass_fds=descriptors,
        start_new_session=True,
    )
    return process, complaints


def _last_line(file: IO[bytes]) -> str:
    size = os.fstat(file.fileno()).st_size
    text = os.pread(file.fileno(), 4096, max(0, size - 4096)).decode(errors="replace")
    return text.strip().rpartition("\n")[2][:400]
