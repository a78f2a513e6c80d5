"""One thread, deterministic kernels and seeded generators, so that a training gives the same bytes wherever it runs.

All randomness of a client's round comes from generators seeded by SHA-256 over (purpose, seed, client, round), so
neither the order of clients nor the number of workers matters.
"""

import ctypes
import hashlib
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import torch

# mallopt(3): a process keeps this many freed bytes, and takes blocks of up to as many from them.
M_TRIM_THRESHOLD, KEPT_BYTES = -1, 1 << 28
M_MMAP_THRESHOLD, LARGEST_KEPT_BYTES = -3, 1 << 25


def keep_freed_memory() -> None:
    """Let a process that will train keep the memory that it frees, by glibc's mallopt(3).

    Without it the buffers that a step frees go back to the system and come again, a page fault for each 4 KiB.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        libc.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT_BYTES)


def generator_of(purpose: str, seed: int, client: int, number: int) -> torch.Generator:
    """A generator on the processor for one purpose of a client's round."""
    digest = hashlib.sha256(f"fedgrove {purpose} {seed} {client} {number}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big", signed=True))


def seed_global(purpose: str, seed: int = 0, client: int = 0, number: int = 0) -> None:
    """Seed what the code of a task may draw from: torch, NumPy and ``random``; for a process that runs nothing else."""
    drawn = generator_of(purpose, seed, client, number).initial_seed() & 0xFFFFFFFF
    torch.manual_seed(drawn)
    np.random.seed(drawn)
    random.seed(drawn)


class _Memory(Protocol):
    fill_uninitialized_memory: bool


# The module has this as a property, by a class that it gives itself.
_memory: _Memory = torch.utils.deterministic  # pyright: ignore[reportAssignmentType]
_running = 0
_lock = threading.Lock()
_outside = (1, True)


@contextmanager
def reproducible() -> Iterator[None]:
    """One thread and deterministic kernels inside; the caller's settings again when the last one leaves."""
    global _running, _outside
    with _lock:
        if _running == 0:
            _outside = torch.get_num_threads(), _memory.fill_uninitialized_memory
            # As torch.use_deterministic_algorithms, which would import torch's compiler (see ``sgd``).
            torch.set_deterministic_debug_mode("error")
            # A fill of every new buffer finds code that reads before it writes; no kernel here does.
            _memory.fill_uninitialized_memory = False
        _running += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if _running == 0:
                threads, fill = _outside
                torch.set_num_threads(threads)
                torch.set_deterministic_debug_mode("default")
                _memory.fill_uninitialized_memory = fill
