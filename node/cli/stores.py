"""Stores that an option names: ``disk:PATH``, or the URL of a Kubo API."""

from pathlib import Path

from fedgrove.ipfs.disk import DiskReader, DiskStore
from fedgrove.ipfs.kubo_address import FORMS
from fedgrove.ipfs.store import ContentReader, ContentStore
from fedgrove.node.cli.extras import require
from fedgrove.node.cli.output import CommandError


def open_content(store: str) -> ContentReader:
    """The store to read that ``--store`` names; a disk store must exist."""
    if store.startswith("disk:"):
        path = Path(store.removeprefix("disk:"))
        if not path.is_dir():
            raise CommandError(f"there is no store at {path}")
        return DiskReader(path, grows=True)
    return _named_kubo(store)


def open_for_writing(store: str) -> ContentStore:
    """The store to write to that ``--store`` names; a disk store is made when it is missing."""
    path = store.removeprefix("disk:")
    return DiskStore(Path(path)) if store.startswith("disk:") and path else _named_kubo(store)


def open_kubo_store(url: str, timeout: float = 30.0, password_file: str | None = "") -> ContentStore:
    """The store in the Kubo node with this address; see ``ipfs.kubo.open_kubo``."""
    require("kubo", "a store in a Kubo node")
    from fedgrove.ipfs.kubo import open_kubo

    return open_kubo(url, timeout, password_file)


def _named_kubo(store: str) -> ContentStore:
    if store.startswith(FORMS):
        return open_kubo_store(store)
    raise CommandError(f"--store must be disk:PATH or the URL of a Kubo API, not {store!r}")
