"""Kills a process from within, at steps that have names: ``SIGKILL``, so nothing is unwound and nothing is flushed.

``install`` wraps the real objects of one process. Steps are named by what happens, never by where in the code:

- ``transaction NAME: before | sent | confirmed``, by the contract's function;
- ``blob KIND: before | written | renamed | stored``, by what the bytes are (see ``kind_of``). Written: the block lies
  whole in a temporary file; renamed: it is in place and not pinned;
- ``record NAME: before | written | renamed | after``, by the journal's name, the note by what is new in it. Written:
  the temporary file is whole and durable, the old one is still there;
- ``key of KIND: before | written | after``, where the journal makes a key for a round, a state, or what it keeps.
  Written: the slot is overwritten and not yet synced;
- ``destruction: before | half | after`` of the journal's files of ended rounds, and in it
  ``destruction of keys: before | written | after``.
"""

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import fields

from fedgrove.chain.face.contract import functions
from fedgrove.chain.network.rpc import RpcNetwork
from fedgrove.chain.network.transactions import Sender
from fedgrove.ipfs import disk
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.base import files
from fedgrove.node.base.key_slots import SlotKey, Slots
from fedgrove.node.protocol import journal
from fedgrove.node.protocol.journal import Journal, RoundNote

PASSED, KILLED = "passed", "killed"
_FUNCTIONS = {f.selector: name for book in ("ClientRegistry", "TrainingLedger") for name, f in functions(book).items()}
_MAGIC = {b"FGS2": "shares", b"FGR2": "release", b"FGV2": "recovery"}
_WORDS = {b'"federation"': "config", b'"round"': "metrics"}


class Injector:
    """Notes every step that this process passes, and kills it at those that are due.

    Parameters
    ----------
    log : Path
        One line a step, ``passed NAME``, and a last ``killed NAME``; it outlives the process.
    kills : mapping of str to int
        Steps to be killed at, if more than 0.
    initial : bytes
        The first model, which is no round's.
    """

    def __init__(self, log: Path, kills: Mapping[str, int], initial: bytes = b"") -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._kills = kills
        self.initial = initial

    def passes(self, step: str) -> None:
        """The process is at a step; it may never return."""
        due = self._kills.get(step, 0) > 0
        os.write(self._log, f"{KILLED if due else PASSED} {step}\n".encode())
        if due:
            os.kill(os.getpid(), signal.SIGKILL)


def install(injector: Injector) -> None:
    """Let every step of this process pass by the injector; it cannot be undone."""
    renaming = _Renaming(injector)
    _watch_transactions(injector)
    _watch_blobs(injector, renaming)
    _watch_records(injector, renaming)
    _watch_destruction(injector)
    _watch_keys(injector)


def kind_of(data: bytes) -> str:
    """What a blob is, by its first bytes."""
    if data[:4] in _MAGIC:
        return _MAGIC[data[:4]]
    if data[:2] == b'{"' and data[-1:] == b"}":
        return next((kind for word, kind in _WORDS.items() if word in data), "other")
    # Safetensors: the length of a JSON header in 8 bytes, then the header. What is left is uniform.
    return "model" if data[2:9] == bytes(6) + b"{" else "masked update"


class _Renaming:
    """What is being written at the moment; ``os.replace`` is where it comes into place."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        self.name = ""
        replace = os.replace

        def watched(source: str | Path, target: str | Path) -> None:
            if self.name:
                injector.passes(f"{self.name}: written")
            replace(source, target)

        os.replace = watched

    def renamed(self) -> None:
        if self.name:
            self._injector.passes(f"{self.name}: renamed")


def _watch_transactions(injector: Injector) -> None:
    transact, send, under_way = Sender.transact, RpcNetwork.send, []

    def watched(self: Sender, to: str | None, data: bytes, *rest: object, **more: object) -> object:
        name = f"transaction {_FUNCTIONS[data[:4]]}"
        under_way[:] = [name]
        injector.passes(f"{name}: before")
        mined = transact(self, to, data, *rest, **more)
        injector.passes(f"{name}: confirmed")
        return mined

    def sent(self: RpcNetwork, raw: bytes) -> bytes:
        known = send(self, raw)
        injector.passes(f"{under_way[0]}: sent")
        return known

    Sender.transact, RpcNetwork.send = watched, sent


def _watch_blobs(injector: Injector, renaming: _Renaming) -> None:
    put, sync = DiskStore.put, disk._sync

    def watched(self: DiskStore, data: bytes) -> object:
        renaming.name = "blob initial model" if data == injector.initial else f"blob {kind_of(data)}"
        injector.passes(f"{renaming.name}: before")
        cid = put(self, data)
        injector.passes(f"{renaming.name}: stored")
        renaming.name = ""
        return cid

    def synced(path: Path) -> None:
        if path.name == "blocks":
            renaming.renamed()
        sync(path)

    DiskStore.put, disk._sync = watched, synced


def _watch_records(injector: Injector, renaming: _Renaming) -> None:
    save, write, sync = Journal.save, journal.write_atomically, files.sync_directory
    noted = []

    def saved(self: Journal, note: RoundNote) -> None:
        noted[:] = [_news(self.note(note.round), note)]
        save(self, note)

    def watched(path: Path, data: bytes, mode: int) -> None:
        stem = path.name.removesuffix(".sealed")
        name = stem.partition("-")[2] or stem
        renaming.name = f"record {noted[0] if name == 'note' else name}"
        injector.passes(f"{renaming.name}: before")
        write(path, data, mode)
        injector.passes(f"{renaming.name}: after")
        renaming.name = ""

    def synced(directory: Path) -> None:
        renaming.renamed()
        sync(directory)

    Journal.save, journal.write_atomically, files.sync_directory = saved, watched, synced


def _news(old: RoundNote | None, new: RoundNote) -> str:
    """What a note says that the one before did not."""
    if old is None:
        return "secrets"
    differing = (field.name for field in fields(new) if getattr(new, field.name) != getattr(old, field.name))
    name = next(differing, "nothing new")
    return f"made {new.made.split()[-1]}" if name == "made" else name


def _watch_destruction(injector: Injector) -> None:
    destroy, unlink = Journal.destroy, Path.unlink
    removed: list[Path] = []

    def watched(self: Journal, before: int) -> None:
        removed.clear()
        destroy(self, before)
        if removed:
            injector.passes("destruction: after")

    def unlinked(self: Path, missing_ok: bool = False) -> None:
        ours = ".sealed" in self.suffixes
        if ours and not removed:
            injector.passes("destruction: before")
        unlink(self, missing_ok)
        if ours:
            removed.append(self)
            if len(removed) == 1:
                injector.passes("destruction: half")

    Journal.destroy, Path.unlink = watched, unlinked


def _watch_keys(injector: Injector) -> None:
    add, destroy_others, sync, under_way = Slots.add, Slots.destroy_others, os.fdatasync, []

    def added(self: Slots, scope: str) -> SlotKey:
        return passing(f"key of {scope.partition(' ')[0]}", lambda: add(self, scope))

    def destroyed(self: Slots, kept: set[bytes]) -> None:
        passing("destruction of keys", lambda: destroy_others(self, kept))

    def passing(name: str, act: Callable[[], object]) -> object:
        injector.passes(f"{name}: before")
        under_way[:] = [name]
        result = act()
        under_way.clear()
        injector.passes(f"{name}: after")
        return result

    def synced(descriptor: int) -> None:
        if under_way:
            injector.passes(f"{under_way[0]}: written")
        sync(descriptor)

    Slots.add, Slots.destroy_others, os.fdatasync = added, destroyed, synced
