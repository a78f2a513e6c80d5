"""The memory of a process: who can read it, and how much there is.

Keys stay in the memory of the process that needs them: no core dump, and no other process of the user reads it.
"""

import ctypes
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
"""Bytes of the machine's memory."""
_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_SET_DUMPABLE = 4  # prctl(2)


def keep_private() -> None:
    """Let no core dump of this process be written, nor any process of the same user trace it or read its memory.

    The limit, which children inherit, holds for core files. Where the system pipes them to a program, the limit says
    nothing: there the second measure counts, which Linux alone has and which a new program starts without.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def memory_limit() -> int:
    """Bytes that this process and its children may use: the machine's memory, or its control group's if less."""
    groups = (_bytes(path) for path in _group_limits())
    return min([MACHINE, *(limit for limit in groups if limit is not None)])


def _group_limits() -> Iterator[Path]:
    """The files with the limits of this process's control group and of those around it, of either version."""
    try:
        lines = (_PROC / "self/cgroup").read_text().splitlines()
    except OSError:
        return  # no Linux, or no /proc
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            folder, name = _GROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = _GROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        # A container often sees its own group as the root, under the path that it has outside.
        place = Path(group.lstrip("/"))
        yield from (folder / each / name for each in (place, *place.parents))


def _bytes(path: Path) -> int | None:
    """The limit in a file; None where it has none, or cannot be read."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and int(text) else None
