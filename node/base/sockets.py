"""Folders for Unix sockets: a system keeps about a hundred bytes of a socket's path, and TMPDIR may be longer."""

import errno
import multiprocessing.util
import os
import tempfile

_LONGEST = 60
"""Bytes of that folder's path; what is made in it adds up to 40, and macOS keeps 103."""
_OTHERS = ("/tmp", "/var/tmp", "/dev/shm")


def socket_root() -> str:
    """The folder for temporary files, or another one where its path is too long for sockets in it.

    Raises
    ------
    OSError
        There is no folder with a path that is short enough.
    """
    for each in (tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", ""), *_OTHERS):
        if each and len(os.fsencode(each)) <= _LONGEST and os.access(each, os.W_OK | os.X_OK):
            return each
    raise OSError(errno.ENAMETOOLONG, f"set TMPDIR to a folder with a path of at most {_LONGEST} bytes")


def shorten_sockets_of_pools() -> None:
    """Have multiprocessing put this process's sockets where their paths are short enough.

    It asks for a folder once, and keeps it until the process ends.
    """
    before, tempfile.tempdir = tempfile.tempdir, socket_root()
    try:
        multiprocessing.util.get_temp_dir()
    finally:
        tempfile.tempdir = before
