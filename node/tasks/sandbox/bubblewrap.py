"""Command lines of bubblewrap: a process in namespaces of its own, from which only what is named can be seen.

The process begins with the rights, inside its user namespace alone, to mount scratch space for each job and to give up
its account. Its jobs give them up before they run a line of a task.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from fedgrove.node.tasks.sandbox import runtime
from fedgrove.node.tasks.sandbox.settings import BASES, DATA, SCRATCH, TASK, Visible

_NAMESPACES = ("user", "pid", "ipc", "uts", "net", "cgroup-try")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_RIGHTS = ("SYS_ADMIN", "SETPCAP")
_RIGHTS_OF_ROOT = ("SETUID", "SETGID", "KILL", "DAC_READ_SEARCH")


def inside(visible: Visible) -> Visible:
    """Where a job finds what it is shown; a file keeps its name."""
    bases = {name: BASES / name for name in visible.bases}
    return Visible(_place(visible.task, TASK), visible.data and _place(visible.data, DATA), bases)


def command(visible: Visible, program: Sequence[str], info_fd: int, blocked: int | None) -> list[str]:
    """Return the command that runs a program in the sandbox.

    Parameters
    ----------
    info_fd
        Descriptor to which the id of the program's process is written.
    blocked
        Descriptor that is read before the program starts, once ``map_accounts`` is done; for root alone.
    """
    rights = _RIGHTS if blocked is None else _RIGHTS + _RIGHTS_OF_ROOT
    return [
        shutil.which("bwrap") or "bwrap",
        *(f"--unshare-{name}" for name in _NAMESPACES),
        *("--new-session", "--as-pid-1", "--hostname", "fedgrove", "--info-fd", str(info_fd)),
        *([] if blocked is None else ["--userns-block-fd", str(blocked)]),
        *_files(visible),
        *("--chdir", "/", "--cap-drop", "ALL"),
        *(word for right in rights for word in ("--cap-add", f"CAP_{right}")),
        "--",
        *program,
    ]


def started(info_fd: int) -> int:
    """Read the id of the program's process; ``EOFError`` where bubblewrap gave up."""
    text = b""
    while not text.rstrip().endswith(b"}"):
        piece = os.read(info_fd, 4096)
        if not piece:
            raise EOFError("bubblewrap gave up")
        text += piece
    return json.loads(text)["child-pid"]


def map_accounts(pid: int) -> None:
    """Let the user namespace of a process know every account of this one, so that jobs can be another than root."""
    for name in ("uid_map", "gid_map"):
        rows = [line.split() for line in Path(f"/proc/self/{name}").read_text().splitlines()]
        Path(f"/proc/{pid}/{name}").write_text("".join(f"{first} {first} {count}\n" for first, _, count in rows))


def _files(visible: Visible) -> list[str]:
    words = [word for path in runtime.folders() for word in ("--ro-bind", str(path), str(path))]
    words += [word for place, target in runtime.links() for word in ("--symlink", target, place)]
    words += ["--proc", "/proc", "--dir", "/tmp", "--dir", "/dev/shm"]
    words += ["--tmpfs", str(SCRATCH / "home")]  # for what libraries write while they are imported; jobs have their own
    words += [word for name in _DEVICES for word in ("--dev-bind-try", f"/dev/{name}", f"/dev/{name}")]
    shown = inside(visible)
    for path, place in zip(visible.paths, shown.paths, strict=True):
        words += ["--ro-bind", str(path), str(place)]
    # As root, core_pattern could be written through a /proc that is not read-only.
    return [*words, "--remount-ro", "/proc", "--remount-ro", "/"]


def _place(path: Path, place: Path) -> Path:
    return place if path.is_dir() else place / path.name
