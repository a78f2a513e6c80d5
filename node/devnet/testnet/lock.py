"""One command at a time works on a testnet's directory: a lock on the directory itself, which leaves nothing behind."""

import os
from fcntl import LOCK_EX, LOCK_NB, flock

from fedgrove.common.errors import RunFailed
from fedgrove.node.devnet.testnet.layout import TestnetPaths, is_ours


class Busy(RunFailed):
    """Somebody else works on the directory."""


def claim(layout: TestnetPaths) -> int:
    """Make the directory if need be, and lock it; returns the open directory, which keeps the lock until it is closed.

    Raises
    ------
    Busy
        Somebody else holds the lock.
    RunFailed
        The directory holds other things than a testnet, or cannot be made.
    """
    try:
        layout.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = os.open(layout.root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as fault:
        raise RunFailed(f"cannot make the directory {layout.root}: {fault.strerror}; give another --dir") from None
    try:
        flock(directory, LOCK_EX | LOCK_NB)
        if not os.path.samestat(os.fstat(directory), os.stat(layout.root)):
            raise FileNotFoundError("whoever had the lock has removed the directory")
    except OSError:
        os.close(directory)
        raise Busy(f"another command is using {layout.root}: wait until it is done") from None
    if not layout.record.exists() and _holds_other_things(layout):
        os.close(directory)
        raise RunFailed(f"{layout.root} contains something other than a testnet: give another --dir")
    return directory


def _holds_other_things(layout: TestnetPaths) -> bool:
    """Whether anything in a directory without a testnet is not what an attempt to make one left."""
    half_made = layout.unfinished.exists()
    return not all(half_made and is_ours(path) for path in layout.root.iterdir())
