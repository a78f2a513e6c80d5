"""The pool of processes: there from the start, and deaf to Ctrl-C, which is the parent's to answer."""

import multiprocessing
import signal
from contextlib import suppress
from pathlib import Path

from fedgrove.node.lab.simulation.executors import open_executor


def ignores_interrupts(pid: int) -> bool:
    """Whether the main thread of a process has SIGINT blocked."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:"))
    return bool(int(mask, 16) >> (signal.SIGINT - 1) & 1)


def test_all_processes_start_at_once_and_leave_interrupts_to_the_parent():
    others = set(multiprocessing.active_children())
    # Left with an error, the pool ends its processes before they have loaded anything.
    with suppress(KeyboardInterrupt), open_executor("processes", 3):
        started = set(multiprocessing.active_children()) - others
        assert len(started) == 3, "they load torch while the caller loads data"
        assert all(ignores_interrupts(process.pid) for process in started)
        raise KeyboardInterrupt
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
