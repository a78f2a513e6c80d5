"""What a job may use."""

import os
from dataclasses import dataclass

_GIB = 2**30
_MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class JobLimits:
    """Bounds of one job; sizes in bytes.

    ``memory`` is address space beyond what the process starts with, by default the machine's memory; None sets no
    limit. ``scratch`` is shared by the scratch folder, /tmp and /dev/shm, which lie in memory. ``request`` bounds what
    a job is given, ``reply`` the tensors that it returns, ``header`` the JSON of its reply.
    """

    seconds: float = 3600.0
    memory: int | None = _MACHINE
    scratch: int = min(_GIB, _MACHINE // 8)
    header: int = 2**20
    request: int = 4 * _GIB
    reply: int = 4 * _GIB
    threads: int = 64 + 4 * (os.cpu_count() or 1)
    descriptors: int = 256
    start_seconds: float = 120.0
