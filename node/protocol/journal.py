"""A client's durable record of a round: encrypted, written atomically, destroyed when the round is over.

Files are encrypted in segments, so that a model is never in memory a second time for it.

Next to the note there are blobs by name: ``shares`` (this client's sealed shares), ``update`` (the result of local
training), ``masked`` (what was committed), ``voucher`` (its proof that this has bounds) and ``released`` (the shares it
let go of; in later stages ``released1`` and so on), and ``late``, whose proofs were not there in time; once written
they never change.

Some things outlive their round: ``state``, what the client's strategy keeps at home for its next round, such as the
model that it trained (the newest stays until that of a later round is there and that round is over), the list of
rounds that an upload was made in, where uploads spend a privacy budget, and that of those whose shares were published,
which samples are held out from training, for which sum shares were released last, where updates have bounds, and the
federation that all this is of.

All else must survive a crash (the secrets behind keys that are already on the ledger, the local update, what was
released) and must not survive the round: ciphertexts stay on public storage for ever, so forward secrecy rests on the
destruction of these files.

A file that was removed or replaced can be read back from the disk. So each round has a key of its own, and so has each
version of what outlives a round, and what is destroyed is the key (``node.base.key_slots``). The keystore's storage key
only seals those keys. Keys are made before the first file that names them, and destroyed after the last one is gone;
where a process was killed in between, the next one that opens the journal destroys them.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Annotated, BinaryIO

from msgspec import Meta

from fedgrove.common.chunks import Buffer, joined
from fedgrove.common.errors import InvalidContent, RunFailed
from fedgrove.common.regular_file import NotRegular, open_regular, read_regular
from fedgrove.common.wire import Count, Malformed, Table, canonical_json, decode
from fedgrove.node.base.files import sync_directory, write_atomically
from fedgrove.node.base.key_slots import ID_BYTES, NoSlotFile, SlotFile, SlotKey, Slots
from fedgrove.node.base.sealed_stream import seal, unseal

_KEYS = "keys"
_MAX_ROUNDS_BYTES = 1 << 20
_MAX_FILE_BYTES = 1 << 33  # above any blob that a federation may allow
_UPLOADS = "uploads"
_RELEASES = "releases"
_FEDERATION = "federation"
_OWN_FOLDER = "give this client a folder of its own (--directory)"
STATE = "state"
"""Name of the blob that outlives its round."""


class JournalDamaged(RunFailed):
    """A journal file is not what this node wrote with this key, or not of the federation that it runs in."""


class RoundNote(Table, frozen=True):
    """Notes of a client on one round.

    Attributes
    ----------
    secrets : str
        The round's secrets (``RoundSecrets.to_bytes``), hexadecimal.
    order, summed : str
        Digests of the order, and of order and shares, for which the secrets were used; empty until they are.
    sketch, verdict : str
        Hash of the block from which the sketch of the round's updates follows, and digest of it and of whom shares were
        released for; empty until they are used, and where updates have no bounds.
    made : str
        Names of the blobs that were made, so that a lost one is never made again.
    committed : bool
        The commitment was confirmed: a ledger that does not list it afterwards is lying.
    """

    round: Count
    secrets: Annotated[str, Meta(pattern=r"\A(?:[0-9a-f]{2})*\Z")]
    order: str = ""
    summed: str = ""
    sketch: str = ""
    verdict: str = ""
    made: str = ""
    committed: bool = False

    def __repr__(self) -> str:
        return f"RoundNote(of round {self.round})"  # without the secrets


class Journal:
    """One directory of encrypted files, keyed by round.

    Parameters
    ----------
    directory : Path
        Created when missing, mode 0700.
    key : bytes
        32 bytes, the storage key of the client's keystore.
    """

    def __init__(self, directory: Path, key: bytes) -> None:
        self._directory = directory
        self._slots = SlotFile(directory / _KEYS, key)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._swept = False
        self._finish_destruction()

    def bind(self, chain_id: int, ledger: str) -> None:
        """Give a new journal to the federation of a ledger.

        Its entries mean nothing elsewhere: rounds have the same numbers in every federation.

        Raises JournalDamaged: it is another federation's.
        """
        own = canonical_json({"chain_id": chain_id, "ledger": ledger})
        found = self.kept(_FEDERATION)
        if found is None:
            self.keep(_FEDERATION, own)
        elif found != own:
            raise JournalDamaged(f"{self._directory} is the journal of another federation: {_OWN_FOLDER}")

    def note(self, round_number: int) -> RoundNote | None:
        """Return the note of a round, or None if this client has not taken part in it."""
        data = self.read(round_number, "note")
        if data is None:
            return None
        try:
            note = RoundNote.from_bytes(data)
        except Malformed:
            note = None
        if note is None or note.round != round_number:
            raise JournalDamaged(f"the note of round {round_number} in {self._directory} cannot be read")
        return note

    def noted(self, round_number: int) -> RoundNote:
        """The note of a round that this client takes part in; AttributeError if there is none."""
        note = self.note(round_number)
        if note is None:
            raise AttributeError(f"the journal has no note of round {round_number}")
        return note

    def save(self, note: RoundNote) -> None:
        """Write the note durably; it replaces the note of the same round."""
        data = note.to_bytes()
        if len(data) > note.max_bytes:
            raise JournalDamaged(f"the note of round {note.round} is larger than {note.max_bytes} bytes")
        self.write(note.round, "note", data)

    def write(self, round_number: int, name: str, data: bytes | Iterable[Buffer]) -> None:
        """Encrypt and store ``data``, whole or in chunks, under (round, name): on disk and synced when this returns."""
        scope = f"{'state' if name == STATE else 'round'} {round_number}"
        with self._held(changing=True) as slots:
            _seal(self._path(round_number, name), slots.of_scope(scope) or slots.add(scope), data)

    def read(self, round_number: int, name: str) -> bytes | None:
        """Return what was stored under (round, name), or None."""
        return self._open(self._path(round_number, name))

    def keep(self, name: str, data: bytes) -> None:
        """Encrypt and store what belongs to no round: durable when this returns, and what it replaces is destroyed."""
        with self._held(changing=True) as slots:
            self._swept = False
            _seal(self._kept(name), slots.add(f"kept {name}"), data)
            self._sweep(slots)

    def kept(self, name: str) -> bytes | None:
        """Return what ``keep`` stored under a name, or None."""
        return self._open(self._kept(name))

    def _open(self, path: Path) -> bytes | None:
        with ExitStack() as stack:
            with self._held() as slots:  # so that nobody replaces the file before its key is read
                try:
                    file = stack.enter_context(open_regular(path, follow=False))
                except FileNotFoundError:
                    return None
                except NotRegular as fault:
                    raise JournalDamaged(f"{path} is not a regular file: remove it") from fault
                key = slots.find(file.read(ID_BYTES))
            data = _unsealed(key, path, file)
        if data is None:
            of_round = _round_of(path) > -1
            remedy = "remove every file of its round, to take part in the next" if of_round else _OWN_FOLDER
            raise JournalDamaged(f"{path} was not written with this keystore or has been changed: {remedy}")
        return data

    def state(self, before: int) -> bytes | None:
        """Return what the strategy kept after the client's last round below ``before``, or None."""
        path = _newest_state(self._until(before - 1))
        return self.read(_round_of(path), STATE) if path else None

    def forget_state(self, before: int) -> None:
        """Remove what ``state`` would return."""
        path = _newest_state(self._until(before - 1))
        self._remove([path] if path else [])

    def uploads(self) -> tuple[int, ...]:
        """Rounds that were passed to ``count_upload``, ascending."""
        why = "spent its privacy budget", "the ledger lists every round of these that ended with a sum"
        return self._rounds(_UPLOADS, *why)

    def count_upload(self, round_number: int) -> None:
        """Remember for good that an upload is made in a round; on disk and synced when this returns."""
        self.keep(_UPLOADS, canonical_json(sorted({*self.uploads(), round_number})))

    def newest_round(self) -> int:
        """The last round about which it keeps something, or in which it published shares; 0 for none."""
        return max([0, *map(_round_of, self._directory.iterdir()), *self.releases()])

    def releases(self) -> tuple[int, ...]:
        """Rounds that were passed to ``count_release``, ascending."""
        return self._rounds(_RELEASES, "it published shares in", "the ledger lists every release that it kept")

    def count_release(self, round_number: int) -> None:
        """Remember for good that shares are published in a round; on disk and synced when this returns."""
        self.keep(_RELEASES, canonical_json(sorted({*self.releases(), round_number})))

    def _rounds(self, name: str, what: str, why: str) -> tuple[int, ...]:
        path = self._kept(name)
        try:
            data = self._open(path)
            return decode(tuple[int, ...], data, _MAX_ROUNDS_BYTES) if data is not None else ()
        except (JournalDamaged, Malformed):
            said = f"{path}, which lists the rounds that {what}, cannot be read: remove it, because {why}"
            raise JournalDamaged(said) from None

    def destroy(self, before: int) -> None:
        """Remove every file of the rounds up to and including ``before``, except for the newest state among them.

        Their keys are overwritten, so their secrets are gone for good.
        """
        over = self._until(before)
        self._remove(over - {_newest_state(over)})

    def _until(self, last: int) -> set[Path]:
        """Files of the rounds up to ``last``, what a killed writer left half written, too."""
        return {path for path in self._directory.iterdir() if -1 < _round_of(path) <= last}

    def _remove(self, paths: Collection[Path]) -> None:
        if not paths and self._swept:
            return
        with self._held(changing=True) as slots:
            self._swept = False
            for path in paths:
                path.unlink()
            sync_directory(self._directory)
            self._sweep(slots)

    def _finish_destruction(self) -> None:
        """Clean up after a killed process: remove half-written files, and keys that are not named by a file."""
        if not any(self._directory.iterdir()):
            self._swept = True
            return
        with self._held(changing=True) as slots:
            for path in self._directory.glob("*.sealed.tmp"):
                path.unlink()
            sync_directory(self._directory)
            self._sweep(slots)

    def _sweep(self, slots: Slots) -> None:
        """Destroy the keys that no file names any more."""
        slots.destroy_others({_key_id(path) for path in self._directory.glob("*.sealed")})
        self._swept = True

    @contextmanager
    def _held(self, changing: bool = False) -> Iterator[Slots]:
        try:
            with self._slots.held(changing) as slots:
                yield slots
        except NoSlotFile as fault:
            raise JournalDamaged(str(fault)) from None

    def _path(self, round_number: int, name: str) -> Path:
        return self._directory / f"{round_number:08d}-{name}.sealed"

    def _kept(self, name: str) -> Path:
        return self._directory / f"{name}.sealed"


def _seal(path: Path, key: SlotKey, data: bytes | Iterable[Buffer]) -> None:
    chunks = (data,) if isinstance(data, bytes) else data
    write_atomically(path, chain((key.id,), seal(key.key, path.name.encode(), chunks)), mode=0o600)


def _unsealed(key: SlotKey | None, path: Path, file: BinaryIO) -> bytes | None:
    """What is sealed in a file behind its key's id; None where it is not what was written."""
    if key is None or os.fstat(file.fileno()).st_size > _MAX_FILE_BYTES:
        return None
    try:
        return joined(unseal(key.key, path.name.encode(), file))
    except InvalidContent:
        return None


def _key_id(path: Path) -> bytes:
    """Id of the key that a file is encrypted under."""
    try:
        return read_regular(path, ID_BYTES, follow=False)[:ID_BYTES]
    except NotRegular:
        return b""


def _round_of(path: Path) -> int:
    """The round of a journal's file; -1 for any other file."""
    number = path.name.partition("-")[0]
    return int(number) if number.isascii() and number.isdecimal() else -1


def _newest_state(paths: Iterable[Path]) -> Path | None:
    return max((path for path in paths if path.name.endswith(f"-{STATE}.sealed")), key=_round_of, default=None)
