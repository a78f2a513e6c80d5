"""Keeps one process running: starts it, starts it again when it dies, ends it when told to.

Each keeper has a thread of its own, which starts the process and lives as long as it does: Linux ends a child with the
thread that started it, and that is how nothing outlives a supervisor that was killed.
"""

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fedgrove.chain.face.networks import dying_with_parent
from fedgrove.ipfs.store import StoreError
from fedgrove.node.base.files import open_log
from fedgrove.node.devnet.testnet.identity import Identity
from fedgrove.node.roles.service import WITHOUT_RESULT

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
STEADY_SECONDS = 10.0
MOST_FAILURES = 10


class Running(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int: ...

    def wait(self) -> int | None:
        """Wait for its end; the exit code, negative for a signal, None where nobody knows."""
        ...

    def stop(self, seconds: float) -> None:
        """Ask it to end, and kill it after this many seconds."""
        ...


@dataclass(frozen=True)
class Job:
    """A process to keep running.

    Attributes
    ----------
    name, kind : str
        ``kind`` is chain, store, coordinator, client or explorer.
    start : callable
        Starts it and returns when it is ready for others.
    ends : bool
        Exit codes 0 and 1 mean that its work is done, with and without a result; else it must run for ever.
    """

    name: str
    kind: str
    start: Callable[[], Running]
    ends: bool = True


@dataclass(frozen=True)
class Status:
    """How a kept process is.

    Attributes
    ----------
    state : str
        starting, running, paused (to be started again), finished, gave up, or stopped.
    pid : int
        0 while it does not run.
    started : str
        With the pid it identifies the process, see ``Identity``.
    since : float
        When it was last started, in seconds since 1970; 0 before.
    restarts : int
        How often it was started again.
    code : int or None
        Its last exit code.
    trouble : str
        Why it does not run, in a sentence; empty while it does.
    """

    name: str
    kind: str
    state: str = "starting"
    pid: int = 0
    started: str = ""
    since: float = 0.0
    restarts: int = 0
    code: int | None = None
    trouble: str = ""


class Keeper:
    """Keeps a job running; ``status`` may be read at any time.

    Parameters
    ----------
    job : Job
        What to run.
    tell : callable
        Called with a sentence whenever something is worth a line in the supervisor's log.
    """

    def __init__(self, job: Job, tell: Callable[[str], None]) -> None:
        self.job = job
        self.status = Status(job.name, job.kind)
        self._tell = tell
        self._stopping = threading.Event()
        self._running: Running | None = None
        self._changes = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=job.name, daemon=True)

    def begin(self) -> None:
        """Start the job; returns at once."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End the process and return; it is started no more."""
        self._stopping.set()
        with self._changes:
            running = self._running
        if running is not None:
            running.stop(seconds)
        if self._thread.is_alive():
            self._thread.join(seconds)
        if self.status.state != "finished":
            self._set(state="stopped", pid=0)

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            begun = time.monotonic()
            code = self._live()
            if self._stopping.is_set():
                return
            if self.job.ends and code in (0, WITHOUT_RESULT):
                self._set(state="finished", pid=0, code=code, trouble="")
                self._tell(f"{self.job.name} has finished" + (", without a result" if code else ""))
                return
            failures = 1 if time.monotonic() - begun > STEADY_SECONDS else failures + 1
            if failures > MOST_FAILURES:
                self._set(state="gave up", pid=0, code=code)
                self._tell(f"{self.status.trouble}, {failures} times in a row: it is not restarted")
                return
            pause = min(FIRST_PAUSE_SECONDS * 2 ** (failures - 1), LONGEST_PAUSE_SECONDS)
            self._set(state="paused", pid=0, code=code)
            self._tell(f"{self.status.trouble}: it restarts in {pause:g} s")
            if not self._stopping.wait(pause):
                self._set(restarts=self.status.restarts + 1)

    def _live(self) -> int | None:
        """Start the process and wait for its end; None when it could not be started."""
        self._set(state="starting")
        try:
            running = self.job.start()
        except (OSError, StoreError) as fault:
            self._set(trouble=f"{self.job.name} did not start ({fault})")
            return None
        with self._changes:
            self._running = running
        if self._stopping.is_set():  # stopped while it was being started
            running.stop(0)
        with suppress(ProcessLookupError):
            identity = Identity.of(running.pid)
            self._set(state="running", pid=identity.pid, started=identity.started, since=time.time(), trouble="")
        code = running.wait()
        self._set(trouble=f"{self.job.name} ended{_named(code)}" if code or not self.job.ends else "")
        with self._changes:
            self._running = None
        return code

    def _set(self, **changes: object) -> None:
        self.status = Status(**{**self.status.__dict__, **changes})


class Command:
    """A child of this process with one log for all it says, appended to.

    Parameters
    ----------
    by : Signals
        The signal by which it ends when this process dies.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        directory: Path,
        by: signal.Signals = signal.SIGKILL,
    ) -> None:
        with open_log(log) as file:
            self._process = subprocess.Popen(
                dying_with_parent(list(command), by),
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self) -> int:
        return self._process.wait()

    def stop(self, seconds: float) -> None:
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _named(code: int | None) -> str:
    if code is None:
        return ""
    if code >= 0:
        return f" with code {code}"
    try:
        return f" by {signal.Signals(-code).name}"
    except ValueError:
        return f" by signal {-code}"
