"""Keeps an anvil node's state file safe from a kill.

anvil writes the file in place every second, so a node that is killed while it writes leaves half of one, on which no
node starts. It also reads accounts and blocks one after the other while it mines, so a file may hold what a transaction
did without the block that the transaction is in: whoever reads that chain waits for the record for ever. Run as a
program, ``python anvil_state.py STATE COMMAND...``, this puts a whole copy back where it is needed, or makes one, and
becomes the command, under the same process id, next to a child that copies every whole state and ends with it. Where a
full disk leaves no room for the copy, no node is started: it would write its file in place, and nothing would be left.
It imports nothing of this package, so that it starts at once.
"""

import ctypes
import errno
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

KEEP_SECONDS = 1.0
IDLE_SHARE = 20
NO_ROOM = errno.ENOSPC
"""Exit code where the disk has no room for the copy."""
_PR_SET_PDEATHSIG = 1


def copy_of(state: Path) -> Path:
    """Path of the copy of a state file."""
    return state.with_name(state.name + ".kept")


def repair(state: Path) -> None:
    """Put the copy in place of a state file that was not written to its end; copy one that was.

    Raises OSError where that cannot be written.
    """
    if not state.exists():
        return
    content, copy = state.read_bytes(), copy_of(state)
    kept = copy.read_bytes() if copy.exists() else None
    if not _is_whole(content):
        if kept is not None:
            _write(state, kept)
    elif content != kept:
        _write(copy, content)


def was_written(state: Path) -> bool:
    """Whether a state file is there and whole, once its node has ended."""
    return state.exists() and _is_whole(state.read_bytes())


def keep(state: Path, parent: int) -> None:
    """Copy the state whenever it is whole and new, while the parent lives; takes at most a twentieth of a processor."""
    copied = None
    while os.getppid() == parent:
        started = time.monotonic()
        try:
            written = state.stat().st_mtime_ns
            if written != copied and _is_whole(content := state.read_bytes()):
                _write(copy_of(state), content)
                copied = written
        except OSError:
            # It may not be there yet, and its folder may be gone when a test ends.
            copied = None
        time.sleep(max(KEEP_SECONDS, IDLE_SHARE * (time.monotonic() - started)))


def _is_whole(content: bytes) -> bool:
    """Whether a state file was written to its end, and no account has sent more transactions than there are.

    There may be more than it sent: those in abandoned blocks stay in the file.
    """
    try:
        state = json.loads(content)
        sent = Counter(transaction["info"]["from"].lower() for transaction in state["transactions"])
        accounts = [(name, each) for name, each in state["accounts"].items() if each["code"] in ("", "0x")]
        return all(_number(each["nonce"]) <= sent[name.lower()] for name, each in accounts)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return False


def _number(value: int | str) -> int:
    return value if isinstance(value, int) else int(value, 16)


def _write(path: Path, content: bytes) -> None:
    new = path.with_name(path.name + ".new")
    try:
        new.write_bytes(content)
        os.replace(new, path)
    except OSError:
        new.unlink(missing_ok=True)  # half a copy would take the room that others wait for
        raise


def _main(state: Path, command: list[str]) -> None:
    try:
        repair(state)
    except OSError as fault:
        sys.exit(NO_ROOM if fault.errno in (errno.ENOSPC, errno.EDQUOT) else 1)
    parent = os.getpid()
    if os.fork() == 0:
        # The parent is about to become anvil. Linux ends the child with it, elsewhere it takes a moment.
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        keep(state, parent)
        os._exit(0)
    os.execv(command[0], command)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2:])
