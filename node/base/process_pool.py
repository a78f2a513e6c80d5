"""A pool of processes that train, which ends with whoever uses it, and as soon as one of its processes does.

Futures of such a pool are not to be cancelled: CPython 3.11, when it finds a process lost, stops at the first cancelled
one, and leaves the others, and its threads, to wait.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event

from fedgrove.node.base.processor import PinnedContext
from fedgrove.node.base.sockets import shorten_sockets_of_pools

# From then on the pool itself closes its reading end of the pipe of tasks when a process is lost (gh-94777).
_CLOSES_TASKS = (3, 11, 5)


def _nothing() -> None:
    """Prepare for nothing."""


@contextmanager
def process_pool(
    workers: int, portable: bool, modules: Sequence[str], prepare: Callable[[], None] = _nothing
) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes get ready while the caller goes on; they are ended at once when the caller leaves.

    Parameters
    ----------
    workers : int
        Processes, at least one.
    portable : bool
        Pin their kernels.
    modules : sequence of str
        What they need, imported once for all of them where they are not portable.
    prepare : callable
        What each does first.
    """
    others = set(multiprocessing.active_children())
    context = _context(portable, modules)
    complete = context.Event()
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(complete, prepare)) as pool:
        # A task starts a process as long as none is idle, so none is before all are there: one that started later would
        # not be ended below. They inherit that Ctrl-C is blocked: it is the parent's to answer, also while they are
        # still loading.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        for _ in range(workers):
            pool.submit(os.getpid)
        complete.set()
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        started = set(multiprocessing.active_children()) - others
        # Nothing public leads to the pipes.
        pipes = [pool._result_queue._writer]  # pyright: ignore[reportAttributeAccessIssue]
        if sys.version_info < _CLOSES_TASKS:
            pipes.append(pool._call_queue._reader)  # pyright: ignore[reportAttributeAccessIssue]
        together = threading.Thread(target=_end_together, args=(started, pipes), daemon=True)
        together.start()
        try:
            yield pool
        finally:
            for process in started:
                process.terminate()
            together.join()  # the pool closes the same pipes


def _context(portable: bool, modules: Sequence[str]) -> BaseContext:
    """How the processes start. Libraries choose their kernels when they are loaded, so pinned ones load their own."""
    if portable:
        return PinnedContext()
    # Forked from a process that has imported the modules and has no thread: threads do not survive a fork.
    shorten_sockets_of_pools()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    return context


def _begin(complete: Event, prepare: Callable[[], None]) -> None:
    """Make a process ready for work, once all are started, and end it with its parent."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    complete.wait()
    prepare()


def _end_with_parent() -> None:
    # A pool's processes hold the pipe that they read their tasks from, so they would wait for ever.
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    os._exit(1)


def _end_together(processes: set[BaseProcess], pipes: list[connection.Connection]) -> None:
    """Wait until a process of a pool ends; then end the others, and this process's ends of the pipes that were theirs.

    A process that is killed while it writes a result leaves half of it in the pipe, and the lock of the pipe taken. The
    pool waits for the other half, and does not see that nobody is left to write it, since it holds the pipe's writing
    end itself (CPython 3.11 to 3.14). Nor does it see that nobody is left to read what it writes of the next tasks,
    before ``_CLOSES_TASKS``.
    """
    connection.wait([process.sentinel for process in processes])
    for process in processes:
        process.terminate()
    for pipe in pipes:
        pipe.close()
