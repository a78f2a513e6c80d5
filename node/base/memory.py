"""Keys stay in the memory of the process that needs them: no core dump, and no other process of the user reads it."""

import ctypes
import resource
import sys

_SET_DUMPABLE = 4  # prctl(2)


def keep_private() -> None:
    """Let no core dump of this process be written, nor any process of the same user trace it or read its memory.

    The limit, which children inherit, holds for core files. Where the system pipes them to a program, the limit says
    nothing: there the second measure counts, which Linux alone has and which a new program starts without.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
