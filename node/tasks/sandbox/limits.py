"""What a job may use."""

import os
from dataclasses import dataclass, field

from fedgrove.node.base.memory import MACHINE, memory_limit

_GIB = 2**30


def _memory() -> int:
    """The machine's memory, or three quarters of a control group's: the node and the warm process are in it, too."""
    most = memory_limit()
    return most if most == MACHINE else 3 * most // 4


def _scratch() -> int:
    return min(_GIB, memory_limit() // 8)


@dataclass(frozen=True)
class JobLimits:
    """Bounds of one job; sizes in bytes.

    ``memory`` is address space beyond what the process starts with, by default the machine's memory, or what this
    process's control group leaves to a job; None sets no limit. ``scratch`` is shared by the scratch folder, /tmp and
    /dev/shm, which lie in memory. ``request`` bounds what a job is given, ``reply`` the tensors that it returns,
    ``header`` the JSON of its reply.
    """

    seconds: float = 3600.0
    memory: int | None = field(default_factory=_memory)
    scratch: int = field(default_factory=_scratch)
    header: int = 2**20
    request: int = 4 * _GIB
    reply: int = 4 * _GIB
    threads: int = 64 + 4 * (os.cpu_count() or 1)
    descriptors: int = 256
    start_seconds: float = 120.0
