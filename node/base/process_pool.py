"""A pool of processes that train, which ends with whoever uses it: at once where that fails, and where a process does.

Futures of such a pool are not to be cancelled: CPython 3.11, when it finds a process lost, stops at the first cancelled
one, and leaves the others, and its threads, to wait.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import connection
from multiprocessing.process import BaseProcess

from fedgrove.node.base.processor import spawning


def _nothing() -> None:
    """Prepare for nothing."""


@contextmanager
def process_pool(workers: int, portable: bool, prepare: Callable[[], None] = _nothing) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes prepare while the caller goes on; they are ended at once when the caller fails.

    Parameters
    ----------
    workers : int
        Processes, at least one.
    portable : bool
        Pin their kernels.
    prepare : callable
        What each does first.
    """
    others = set(multiprocessing.active_children())
    context = spawning(portable)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(prepare,)) as pool:
        # A task starts a process as long as none is idle. They inherit that Ctrl-C is blocked: it is the parent's to
        # answer, also while they are still loading.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        for _ in range(workers):
            pool.submit(os.getpid)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        started = set(multiprocessing.active_children()) - others
        results = pool._result_queue._writer  # pyright: ignore[reportAttributeAccessIssue] (nothing public leads there)
        threading.Thread(target=_end_together, args=(started, results), daemon=True).start()
        try:
            yield pool
        except BaseException:
            for process in started:
                process.terminate()
            raise


def _begin(prepare: Callable[[], None]) -> None:
    """Make a process ready for work, and end it with its parent."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare()


def _end_with_parent() -> None:
    # A pool's processes hold the pipe that they read their tasks from, so they would wait for ever.
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    os._exit(1)


def _end_together(processes: set[BaseProcess], results: connection.Connection) -> None:
    """Wait until all processes of a pool have ended; if one fails, end the others, and this side of their pipe.

    A process that is killed while it writes a result leaves half of it in the pipe, and the lock of the pipe taken. The
    pool waits for the other half, and does not see that nobody is left to write it, since it holds the pipe's writing
    end itself (CPython 3.11 to 3.14).
    """
    running = {process.sentinel: process for process in processes}
    while running:
        for sentinel in connection.wait(list(running)):
            if _failed(running.pop(sentinel)):  # pyright: ignore[reportArgumentType] (it is one of the sentinels)
                for process in running.values():
                    process.terminate()
                running.clear()
                results.close()
                return


def _failed(process: BaseProcess) -> bool:
    """Whether a process that has ended did so with an error. Its status is left to whoever waits for it."""
    with suppress(ChildProcessError):
        ended = os.waitid(os.P_PID, process.pid or 0, os.WEXITED | os.WNOWAIT)
        return ended is not None and (ended.si_code != os.CLD_EXITED or ended.si_status != 0)
    return False  # the pool has asked already, so it waits for nothing
