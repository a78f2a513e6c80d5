"""Landlock: this process, for good, reads the named folders only and writes nothing. Needs no right and no namespace.

Source: landlock(7), ``linux/landlock.h``. Older kernels know fewer operations; the filter refuses the rest.
"""

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from fedgrove.node.tasks.sandbox.kernel import system_call

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on every architecture
_VERSION = 1
_BENEATH = 1
_WRITE, _READ, _LIST = 1 << 1, 1 << 2, 1 << 3
# Bits of file operations, of network operations and of scopes that a version knows (the last row holds for later ones).
_FILES = {1: 2**13 - 1, 2: 2**14 - 1, 3: 2**15 - 1, 5: 2**16 - 1}
_NETWORK = {1: 0, 4: 0b11}
_SCOPES = {1: 0, 6: 0b11}
TRUNCATES = 3  # from this version on Landlock refuses truncation


def version() -> int:
    """Version of the kernel's Landlock, 0 where there is none."""
    try:
        return system_call(_CREATE, None, ctypes.c_size_t(0), _VERSION)
    except OSError:
        return 0


def restrict(readable: Iterable[Path], writable: Iterable[Path] = ()) -> None:
    """Let this thread read only below ``readable``, write only the devices ``writable``, and reach no other process.

    ``no_new_privileges`` comes before. Paths that do not exist are left out.
    """
    known = version()
    files = _known(_FILES, known)
    attributes = struct.pack("QQQ", files, _known(_NETWORK, known), _known(_SCOPES, known))
    size = 8 if known < 4 else 16 if known < 6 else 24
    ruleset = system_call(_CREATE, attributes, ctypes.c_size_t(size), 0)
    for path in readable:
        _allow(ruleset, path, _READ | _LIST)
    for path in writable:
        _allow(ruleset, path, _READ | _WRITE)
    system_call(_RESTRICT, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: Path, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rule = struct.pack("=Qi", access if path.is_dir() else access & ~_LIST, descriptor)
        system_call(_ADD_RULE, ruleset, _BENEATH, rule, 0)
    finally:
        os.close(descriptor)


def _known(table: dict[int, int], known: int) -> int:
    return table[max(least for least in table if least <= known)]
