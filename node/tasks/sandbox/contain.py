"""Contain the process of a job before it runs a line of a task, by its mode; nothing of this can be undone by it.

The process is a fork of the warm one and has one thread.
"""

import mimetypes
import os
import platform
import resource
from pathlib import Path

from fedgrove.node.base.memory import keep_private
from fedgrove.node.tasks.sandbox import bpf, kernel, landlock
from fedgrove.node.tasks.sandbox.settings import SCRATCH, Mode, WarmSettings

NOBODY = 65534
REQUEST, REPLY = 3, 4
_SPARE_FILES = 65536  # files, folders and links in scratch


def contain(settings: WarmSettings, request: int, reply: int) -> None:
    """Give up whatever a task's code does not need; descriptors become ``REQUEST`` and ``REPLY``, the only ones."""
    os.setsid()
    _descriptors(request, reply)
    if settings.mode is Mode.STRICT:
        _mount_scratch(settings)
    _limit(settings)
    _drop_rights()
    kernel.no_new_privileges()
    if settings.mode is Mode.CONTAINED:
        landlock.restrict(settings.readable, [Path("/dev/null")])
        mimetypes.knownfiles.clear()  # it opens those that are there, which fails, and openpyxl asks it
    keep_private()  # a change of account has undone it
    os.dup2(1, 2)
    if settings.mode is not Mode.OFF:
        kernel.install(bpf.program(platform.machine(), os.getpid(), policy(settings.mode)))


def policy(mode: Mode) -> bpf.Policy:
    """Where nothing can be written, attributes of files are not to change either: Landlock does not see to that."""
    if mode is Mode.STRICT:
        return bpf.Policy()
    return bpf.Policy(attributes=False, truncation=landlock.version() >= landlock.TRUNCATES)


def _descriptors(request: int, reply: int) -> None:
    high = max(request, reply, REPLY) + 1
    os.dup2(request, high)
    os.dup2(reply, high + 1)
    os.dup2(high, REQUEST)
    os.dup2(high + 1, REPLY)
    os.closerange(REPLY + 1, os.sysconf("SC_OPEN_MAX"))


def _mount_scratch(settings: WarmSettings) -> None:
    """Mount scratch, /tmp and /dev/shm as one file system in memory that ends with this process."""
    kernel.own_mounts()
    options = f"size={settings.limits.scratch},nr_inodes={_SPARE_FILES},mode=755"
    kernel.mount("tmpfs", str(SCRATCH), "tmpfs", kernel.NO_SETUID | kernel.NO_DEVICES, options)
    for name, place in (("home", ""), ("tmp", "/tmp" if settings.temporary else ""), ("shm", "/dev/shm")):
        folder = SCRATCH / name
        folder.mkdir()
        folder.chmod(0o1777)
        if place:
            kernel.mount(str(folder), place, None, kernel.BIND)
    os.chdir(SCRATCH / "home")


def _limit(settings: WarmSettings) -> None:
    limits = settings.limits
    for which, most in (
        (resource.RLIMIT_AS, None if limits.memory is None else _address_space() + limits.memory),
        (resource.RLIMIT_FSIZE, limits.scratch),
        (resource.RLIMIT_NOFILE, limits.descriptors),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NPROC, _threads(_account()) + limits.threads),
    ):
        if most is not None:
            _lower(which, most)


def _lower(which: int, most: int) -> None:
    """Set a limit, or leave the one in force where that is lower."""
    _, hard = resource.getrlimit(which)
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (least, least))


def _drop_rights() -> None:
    if os.getuid() == 0:
        kernel.drop_root(NOBODY)
    else:
        kernel.drop_capabilities()


def _account() -> int:
    return os.getuid() or NOBODY


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _threads(account: int) -> int:
    """Threads that the account has already, as far as this process can see."""
    return sum(_threads_of(folder, account) for folder in os.listdir("/proc") if folder.isdigit())


def _threads_of(pid: str, account: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has ended
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["Threads"]) if int(fields["Uid"].split()[0]) == account else 0
