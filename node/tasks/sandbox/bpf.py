"""A seccomp filter for the code of a task: which system calls it may make, as a program of classic BPF.

The program runs in the kernel before each call and cannot be removed. It refuses foreign ABIs (32 bits, x32), whose
numbers mean other calls, and every call of ``syscalls.REFUSED``. Calls that name a process may name the caller alone.

Source: seccomp(2), ``linux/filter.h``, ``linux/seccomp.h``.
"""

import errno
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from fedgrove.node.tasks.sandbox.syscalls import ATTRIBUTES, CONDITIONAL, FIRST_UNKNOWN, REFUSED, TRUNCATION

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # operations of BPF
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _KILL_PROCESS, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000

_CLONE_THREAD = 0x00010000
# Namespaces that a new thread could be put into: time, cgroup, uts, ipc, user, pid, net, mount.
_CLONE_NEW = 0x00000080 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000
_O_TRUNC = 0o1000
# F_SETOWN, F_SETSIG, F_SETOWN_EX: signals that a descriptor sends, to any process of the same user.
_SIGNALLING = (8, 10, 15)
_PUSH_INPUT = 0x5412  # TIOCSTI
# Names of threads and of memory, timer slack, and what only reads.
_HARMLESS_PRCTL = (15, 16, 3, 21, 23, 29, 30, 39, 0x53564D41, 0x41555856)


@dataclass(frozen=True)
class Abi:
    """How the kernel names a machine's ABI, and the column of its numbers in ``syscalls``."""

    audit: int
    column: int


ARCHITECTURES = {"x86_64": Abi(0xC000003E, 0), "aarch64": Abi(0xC00000B7, 1)}


@dataclass(frozen=True)
class Policy:
    """What differs between the modes: whether attributes and lengths of files may be changed."""

    attributes: bool = True
    truncation: bool = True


def program(machine: str, pid: int, policy: Policy) -> bytes:
    """Assemble the filter for the process ``pid`` on a machine of ``ARCHITECTURES``, as an array of sock_filter."""
    architecture = ARCHITECTURES[machine]
    return b"".join(struct.pack("<HBBI", *one) for one in _instructions(architecture, pid, policy))


def _instructions(architecture: Abi, pid: int, policy: Policy) -> Iterator[tuple[int, int, int, int]]:
    yield from _foreign(architecture)
    yield (_AT_LEAST, 0, 1, FIRST_UNKNOWN)
    yield _error(errno.ENOSYS)
    for number in _refused(architecture.column, policy):
        yield (_EQUAL, 0, 1, number)
        yield _error(errno.EPERM)
    for name, test in _conditions(pid, policy).items():
        number = CONDITIONAL[name][architecture.column]
        if number is not None:
            yield (_EQUAL, 0, len(test), number)
            yield from test
    yield (_RETURN, 0, 0, _ALLOW)


def _foreign(architecture: Abi) -> Iterator[tuple[int, int, int, int]]:
    """Kill a process that calls by another ABI, then load the number of the call."""
    yield (_LOAD, 0, 0, _ARCHITECTURE)
    yield (_EQUAL, 1, 0, architecture.audit)
    yield (_RETURN, 0, 0, _KILL_PROCESS)
    yield (_LOAD, 0, 0, _NUMBER)
    yield (_AT_LEAST, 0, 1, _X32)
    yield (_RETURN, 0, 0, _KILL_PROCESS)


def _refused(column: int, policy: Policy) -> list[int]:
    tables = [REFUSED, *([] if policy.attributes else [ATTRIBUTES]), *([] if policy.truncation else [TRUNCATION])]
    numbers = [numbers[column] for table in tables for numbers in table.values()]
    return sorted(number for number in numbers if number is not None)


def _conditions(pid: int, policy: Policy) -> dict[str, list[tuple[int, int, int, int]]]:
    """Tests of arguments by the name of the call; each ends in a return."""
    own = {name: _only(0, pid) for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")}
    tests = {
        **own,
        "clone": _threads_only(),
        "clone3": [_error(errno.ENOSYS)],  # its flags lie in memory: the C library falls back to clone
        "prctl": _only(0, *_HARMLESS_PRCTL),
        "prlimit64": _only(0, 0, pid),
        "sched_setaffinity": _only(0, 0, pid),
        "fcntl": _none_of(1, *_SIGNALLING),
        "ioctl": _none_of(1, _PUSH_INPUT),
    }
    if policy.truncation:
        return tests
    cutting = {"open": _no_bit(1, _O_TRUNC), "openat": _no_bit(2, _O_TRUNC)}
    return {**tests, **cutting, "creat": [_error(errno.EPERM)], "openat2": [_error(errno.ENOSYS)]}


def _threads_only() -> list[tuple[int, int, int, int]]:
    return [
        _argument(0),
        (_ANY_BIT, 0, 2, _CLONE_THREAD),
        (_ANY_BIT, 1, 0, _CLONE_NEW),
        (_RETURN, 0, 0, _ALLOW),
        _error(errno.EPERM),
    ]


def _only(argument: int, *values: int) -> list[tuple[int, int, int, int]]:
    tests = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_argument(argument), *tests, _error(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]


def _none_of(argument: int, *values: int) -> list[tuple[int, int, int, int]]:
    """Refuse a call whose argument is one of the values."""
    tests = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_argument(argument), *tests, (_RETURN, 0, 0, _ALLOW), _error(errno.EPERM)]


def _no_bit(argument: int, bits: int) -> list[tuple[int, int, int, int]]:
    return [_argument(argument), (_ANY_BIT, 0, 1, bits), _error(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]


def _argument(place: int) -> tuple[int, int, int, int]:
    """Load the low 32 bits of an argument: all that the kernel reads of those that are tested here."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * place)


def _error(number: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ERROR | number)
