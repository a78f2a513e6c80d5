"""Where tasks run: any ``concurrent.futures.Executor``. Here: this process, a pool of processes, a dask cluster."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.process_pool import process_pool

# How long a scheduler may take to answer.
CLUSTER_SECONDS = 10
WORK = "fedgrove.node.simulation.network_work"

Reach = Literal["memory", "disk", "message"]


class InlineExecutor(Executor):
    """Runs each task in this thread, when it is submitted."""

    def submit(self, fn: Callable, /, *args: Any, **kwargs: Any) -> Future:
        """Run ``fn``; the future that is returned is done."""
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as fault:
            future.set_exception(fault)
        return future


def reach(executor: Executor) -> Reach:
    """How workers get at data: they share this process's memory, its disk, or nothing but messages."""
    if isinstance(executor, InlineExecutor | ThreadPoolExecutor):
        return "memory"
    return "disk" if isinstance(executor, ProcessPoolExecutor) else "message"


@contextmanager
def open_executor(name: str, workers: int = 0, portable: bool = False) -> Iterator[tuple[Executor, int]]:
    """The executor that ``name`` says, and how many tasks it runs at once.

    Parameters
    ----------
    name : str
        ``inline``, ``processes``, or ``dask=ADDRESS`` of a dask scheduler.
    workers : int
        Processes; 0 takes one a core. A cluster has the workers that it has.
    portable : bool
        Pin the kernels of the processes, which are then started for ``inline`` too: one.

    Raises
    ------
    InvalidInput
        Another name, or a scheduler that cannot be reached.
    """
    if name == "inline" and not portable:
        yield InlineExecutor(), 1
    elif name in ("inline", "processes"):
        workers = 1 if name == "inline" else workers or len(os.sched_getaffinity(0))
        # They load torch while the caller loads data.
        with process_pool(workers, portable, [WORK], start_worker) as pool:
            yield pool, workers
    elif name.startswith("dask=") and portable:
        raise InvalidInput("training.portable needs processes that are started here: choose the executor processes")
    elif name.startswith("dask="):
        with _cluster(name.removeprefix("dask=")) as (executor, workers):
            yield executor, workers
    else:
        raise InvalidInput(
            f"the executor must be inline, processes, dask=tcp://HOST:PORT or (for simulate) auto, not {name!r}"
        )


def start_worker() -> None:
    """Make a process ready for work: load torch."""
    import torch

    from fedgrove.node.learning.reproducible import keep_freed_memory

    torch.set_num_threads(1)
    keep_freed_memory()


@contextmanager
def _cluster(address: str) -> Iterator[tuple[Executor, int]]:
    try:
        from distributed import Client
    except ImportError:
        raise InvalidInput('the executor dask needs distributed: pip install "fedgrove[simulation]"') from None
    try:
        client = Client(address, timeout=CLUSTER_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as fault:
        raise InvalidInput(
            f"no dask scheduler answers at {address!r} ({fault}): start one with `dask scheduler`"
        ) from None
    with client:
        threads = client.nthreads()
        if not threads:
            raise InvalidInput(f"the cluster at {address} has no workers: start some with `dask worker {address}`")
        with client.get_executor(pure=False) as executor:
            try:
                yield executor, sum(threads.values())  # pyright: ignore[reportAttributeAccessIssue] (a client that is not asynchronous answers)
            except BaseException:
                executor.shutdown(wait=False)  # which cancels what runs
                raise
