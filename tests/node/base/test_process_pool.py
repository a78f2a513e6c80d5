"""The pool of processes: there from the start, deaf to Ctrl-C, which is the parent's to answer, and gone with it."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from fedgrove.node.base.process_pool import process_pool

ROOT = Path(__file__).parents[3]


def ignores_interrupts(pid: int) -> bool:
    """Whether the main thread of a process has SIGINT blocked."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:"))
    return bool(int(mask, 16) >> (signal.SIGINT - 1) & 1)


def use(program: str, folder: Path) -> subprocess.CompletedProcess:
    """Run a program that has a pool, as nothing but a program of its own starts one from the beginning."""
    (folder / "user.py").write_text(program)
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "user.py"], cwd=folder, env=variables, capture_output=True, text=True, timeout=60
    )


STARTS = """
import multiprocessing
from fedgrove.node.base.process_pool import process_pool
from tests.node.base.test_process_pool import ignores_interrupts

if __name__ == "__main__":
    # Left with an error, the pool ends its processes before they have loaded anything.
    with process_pool(3, {portable}, ["json"]):
        started = multiprocessing.active_children()
        print(len(started), all(ignores_interrupts(process.pid) for process in started), flush=True)
        raise InterruptedError
"""


@pytest.mark.parametrize("portable", [False, True])
def test_all_processes_start_at_once_and_leave_interrupts_to_the_parent(tmp_path, portable):
    done = use(STARTS.format(portable=portable), tmp_path)
    assert done.stdout == "3 True\n" and "InterruptedError" in done.stderr


def test_interrupts_are_let_through_again():
    with process_pool(1, False, ["json"]):
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_all_processes_are_there_also_where_some_are_ready_before_others_start(monkeypatch):
    """One that starts later would wait for ever for a lock that those which are ended hold."""
    submit = ProcessPoolExecutor.submit

    def slowly(pool, *task):
        future = submit(pool, *task)
        time.sleep(0.5)
        return future

    monkeypatch.setattr(ProcessPoolExecutor, "submit", slowly)
    others = set(multiprocessing.active_children())
    with process_pool(3, False, ["json"]):
        assert len(set(multiprocessing.active_children()) - others) == 3


def half(begun: str) -> bytes:
    """End this process by SIGKILL when it has written half of its result."""

    def write_half(connection, data, write=os.write):
        write(connection.fileno(), data[: len(data) // 2])
        Path(begun).touch()
        time.sleep(0.5)  # now the pool waits for the other half
        os.kill(os.getpid(), signal.SIGKILL)

    Connection._send = write_half
    return bytes(1 << 10)


USER = """
import time
from pathlib import Path
from fedgrove.node.base.process_pool import process_pool
from tests.node.base.test_process_pool import half

if __name__ == "__main__":
    begun = Path("begun")
    with process_pool(2, {portable}, ["json"]) as pool:
        future = pool.submit(half, str(begun))
        for _ in range(20):
            pool.submit(time.sleep, 600)
            pool.submit(len, bytes(1 << 20))  # more than the pipe to the processes takes
        while {interrupted} and not begun.exists():
            time.sleep(0.01)
        if {interrupted}:
            raise KeyboardInterrupt
        future.result()
"""


@pytest.mark.parametrize(("interrupted", "portable"), [(False, False), (True, False), (True, True)])
def test_a_process_that_is_killed_amid_its_result_does_not_hold_the_pool(tmp_path, interrupted, portable):
    """Alone, by the kernel that wants memory, or with the others, when the caller is interrupted."""
    done = use(USER.format(interrupted=interrupted, portable=portable), tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("KeyboardInterrupt" if interrupted else "concurrent.futures.process.BrokenProcessPool")
    assert done.returncode == (-signal.SIGINT if interrupted else 1)
