"""Files whose path or content comes from somebody else: nothing but a regular file is opened, and none without bound.

A pipe would keep its reader waiting for ever, a device such as ``/dev/zero`` feeds it without end.
"""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


class NotRegular(OSError):
    """The path holds something else than a regular file."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))


def open_regular(path: Path, follow: bool = True) -> BufferedReader:
    """Open a regular file to read its bytes.

    Parameters
    ----------
    path : Path
    follow : bool
        Whether the path itself may be a symbolic link: yes where a user names a file, no where a stranger's directory
        holds one.

    Raises
    ------
    NotRegular, OSError
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as fault:
        if fault.errno in (errno.ELOOP, errno.ENXIO):  # a symbolic link; a socket
            raise NotRegular(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(path)
    return open(descriptor, "rb")


def read_regular(path: Path, limit: int, follow: bool = True) -> bytes:
    """The bytes of a regular file, at most ``limit + 1`` of them: whoever gets more than ``limit`` refuses the file.

    Raises NotRegular, OSError.
    """
    with open_regular(path, follow) as file:
        # ``read`` makes room for all that it is asked for, before it looks.
        return file.read(min(limit, os.fstat(file.fileno()).st_size) + 1)
