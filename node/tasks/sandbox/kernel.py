"""The few calls of Linux that Python lacks: rights of a process, mounts, namespaces, seccomp. All by ctypes."""

import ctypes
import os
import platform
import struct

from fedgrove.node.tasks.sandbox.bpf import ARCHITECTURES

_LIBC = ctypes.CDLL(None, use_errno=True)
_SET_KEEP_CAPABILITIES, _GET_SECCOMP, _DROP_BOUND, _NO_NEW_PRIVILEGES, _AMBIENT = 8, 21, 24, 38, 47
_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION = 0x20080522  # 64-bit sets
_LAST_CAPABILITY = 63
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_FILTER_ALL_THREADS = 1

NEW_MOUNTS = 0x00020000
BIND, NO_SETUID, NO_DEVICES = 4096, 2, 4
READ_ANYTHING = 2  # CAP_DAC_READ_SEARCH


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def has_filters() -> bool:
    """Whether this system takes seccomp filters and the filter knows the machine."""
    return platform.machine() in ARCHITECTURES and _LIBC.prctl(_GET_SECCOMP, 0, 0, 0, 0) >= 0


def install(program: bytes) -> None:
    """Put all threads of this process under a filter (an array of sock_filter), for good."""
    block = _Program(len(program) // 8, program)
    number = _SECCOMP[platform.machine()]
    _check(_LIBC.syscall(number, 1, _FILTER_ALL_THREADS, ctypes.byref(block)))


def no_new_privileges() -> None:
    """Let no program that this process starts have more rights than it has."""
    _check(_LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))


def drop_root(identity: int) -> None:
    """Become an account without rights that can only read what it can see; root alone may call this.

    The right to read remains because a member who runs as root keeps data and interpreters where only root reads: what
    can be seen is for mounts or Landlock to say.
    """
    _check(_LIBC.prctl(_SET_KEEP_CAPABILITIES, 1, 0, 0, 0))
    os.setgroups([])
    os.setresgid(identity, identity, identity)
    _drop_bounds()
    os.setresuid(identity, identity, identity)
    _keep(1 << READ_ANYTHING)


def drop_capabilities() -> None:
    _drop_bounds()
    _keep(0)


def _drop_bounds() -> None:
    """Let no later program have any capability; whoever may not change that has none to lose."""
    for capability in range(_LAST_CAPABILITY + 1):
        _LIBC.prctl(_DROP_BOUND, capability, 0, 0, 0)


def _keep(capabilities: int) -> None:
    _LIBC.prctl(_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
    low, high = capabilities & 0xFFFFFFFF, capabilities >> 32
    sets = struct.pack("IIIIII", low, low, 0, high, high, 0)  # effective, permitted, inheritable, twice
    _check(_LIBC.capset(struct.pack("Ii", _CAPABILITY_VERSION, 0), sets))


def own_mounts() -> None:
    """Put this process into a mount namespace of its own."""
    _check(_LIBC.unshare(NEW_MOUNTS))


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount a file system, or with ``BIND`` a folder, as mount(2)."""
    texts = [text and os.fsencode(text) for text in (source, target, kind)]
    _check(_LIBC.mount(*texts, ctypes.c_ulong(flags), options and options.encode()))


def system_call(number: int, *arguments: object) -> int:
    """Make a system call by number; ``OSError`` where it fails."""
    return _check(_LIBC.syscall(ctypes.c_long(number), *arguments))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
