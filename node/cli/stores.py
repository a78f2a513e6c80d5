"""Stores that an option names: ``disk:PATH``, or the URL of a Kubo API."""

import os
from pathlib import Path

from fedgrove.ipfs.disk import DiskReader, DiskStore
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.store import ContentReader, ContentStore
from fedgrove.node.cli.output import CommandError

ADDRESSES = ("http://", "https://", "unix:", "/ip4/", "/ip6/", "/dns")
PASSWORD_FILE_VARIABLE = "FEDGROVE_STORE_PASSWORD_FILE"
_MAX_PASSWORD_BYTES = 1024


def open_content(store: str) -> ContentReader:
    """The store to read that ``--store`` names; a disk store must exist."""
    if store.startswith("disk:"):
        path = Path(store.removeprefix("disk:"))
        if not path.is_dir():
            raise CommandError(f"there is no store at {path}")
        return DiskReader(path, grows=True)
    return _kubo(store)


def open_for_writing(store: str) -> ContentStore:
    """The store to write to that ``--store`` names; a disk store is made when it is missing."""
    path = store.removeprefix("disk:")
    return DiskStore(Path(path)) if store.startswith("disk:") and path else _kubo(store)


def _kubo(store: str) -> KuboStore:
    if store.startswith(ADDRESSES):
        return kubo_store(store)
    raise CommandError(f"--store must be disk:PATH or the URL of a Kubo API, not {store!r}")


def kubo_store(address: str, seconds: float = 30.0, password_file: str = "") -> KuboStore:
    """A Kubo node, with the password in the file that is named here or by the environment."""
    named = password_file or os.environ.get(PASSWORD_FILE_VARIABLE, "")
    return KuboStore(address, seconds, _read_password(Path(named)) if named else "")


def _read_password(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_PASSWORD_BYTES).decode().rstrip("\n")
    except (OSError, UnicodeDecodeError):
        raise CommandError(f"cannot read the password file {path} of the store") from None
