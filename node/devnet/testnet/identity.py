"""Identity of a process: process ids are reused, so a signal needs more than the number."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Identity:
    """A process: its id, and when it started, in ticks since this machine's boot, with the boot's own id."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> "Identity":
        """The process that has this id now. Raises ProcessLookupError."""
        return cls(pid, _look(pid)[2])

    @property
    def alive(self) -> bool:
        """Whether this very process is there and has not ended (an ended child that waits for its parent has).

        While any of its threads is there it is: its main thread may go first, and files and locks go with the last.
        """
        try:
            state, threads, started = _look(self.pid)
        except ProcessLookupError:
            return False
        return (state not in "ZX" or threads > 1) and started == self.started

    def send(self, number: signal.Signals) -> bool:
        """Signal this process and never one that has got its id since; whether it was there."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # The handle stays with the process it was opened for, so nothing can change after this look.
            if not self.alive:
                return False
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
                return True
            return False
        finally:
            os.close(handle)

    def wait(self, seconds: float) -> bool:
        """Whether it ended within this many seconds."""
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


def _look(pid: int) -> tuple[str, int, str]:
    """State, threads and start of the process with an id. Raises ProcessLookupError."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessLookupError(pid) from None
    fields = line.rpartition(")")[2].split()  # the name of its program, in brackets before, may hold anything
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return fields[0], int(fields[17]), f"{boot}/{fields[19]}"
