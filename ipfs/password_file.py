"""A password in a file of its own, as it is handed to nodes of the store and to the command."""

from pathlib import Path

MAX_PASSWORD_BYTES = 1 << 16


def read_password_file(path: Path) -> str:
    """The password in a file, without the end of its line, as whichever system wrote it.

    Raises
    ------
    OSError, UnicodeDecodeError
    """
    with path.open("rb") as file:  # a pipe, too: that is how some hand over a password
        return file.read(MAX_PASSWORD_BYTES).decode("utf-8-sig").rstrip("\r\n")
