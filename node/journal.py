"""A client's durable record of a round: encrypted, written atomically, destroyed when the round is over.

Beside the note there are blobs by name: ``shares`` (this client's sealed shares), ``update`` (the result of local
training), ``masked`` (what was committed) and ``released`` (the shares it let go of); once written they never change.

Two things outlive their round: ``state``, what the client's strategy keeps at home for its next round, such as the
model that it trained (the newest stays until that of a later round is there and that round is over), and the list of
rounds that an upload was made in, where uploads spend a privacy budget.

All else must survive a crash (the secrets behind keys that are already on the ledger, the local update, what was
released) and must not survive the round: ciphertexts stay on public storage for ever, so forward secrecy rests on the
destruction of these files (spec 02, step 1).
"""

import json
import os
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from chain.strict_json import parse_json
from node.files import sync_directory, write_atomically

_NONCE_BYTES = 12
_MAX_NOTE_BYTES = 1 << 20
_UPLOADS = "uploads.sealed"
STATE = "state"
"""Name of the blob that outlives its round."""


class JournalDamaged(RuntimeError):
    """A journal file is not what this node wrote with this key."""


@dataclass(frozen=True)
class RoundNote:
    """What a client has to remember of one round.

    Attributes
    ----------
    secrets : str
        The round's secrets (``RoundSecrets.to_bytes``), hexadecimal.
    order, summed : str
        Digests of the order, and of order and shares, for which the secrets were used; empty until they are.
    made : str
        Names of the blobs that were made, so that a lost one is never made again.
    committed : bool
        The commitment was confirmed: a ledger that does not list it afterwards is lying.
    """

    round: int
    secrets: str = field(repr=False)
    order: str = ""
    summed: str = ""
    made: str = ""
    committed: bool = False


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
        self._cipher = ChaCha20Poly1305(key)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def note(self, round_number: int) -> RoundNote | None:
        """Return the note of a round, or None if this client has not taken part in it."""
        data = self.read(round_number, "note")
        if data is None:
            return None
        try:
            return RoundNote(**parse_json(data))
        except (ValueError, TypeError):
            raise JournalDamaged(f"the note of round {round_number} in {self._directory} cannot be read") from None

    def save(self, note: RoundNote) -> None:
        """Write the note durably; it replaces the note of the same round."""
        data = json.dumps(asdict(note), sort_keys=True).encode()
        if len(data) > _MAX_NOTE_BYTES:
            raise JournalDamaged(f"the note of round {note.round} is larger than {_MAX_NOTE_BYTES} bytes")
        self.write(note.round, "note", data)

    def write(self, round_number: int, name: str, data: bytes) -> None:
        """Encrypt and store ``data`` under (round, name): on disk and synced when this returns."""
        self._seal(self._path(round_number, name), data)

    def read(self, round_number: int, name: str) -> bytes | None:
        """Return what was stored under (round, name), or None."""
        return self._open(self._path(round_number, name))

    def keep(self, name: str, data: bytes) -> None:
        """Encrypt and store what belongs to no round, and is never destroyed: durable when this returns."""
        self._seal(self._directory / f"{name}.sealed", data)

    def kept(self, name: str) -> bytes | None:
        """Return what ``keep`` stored under a name, or None."""
        return self._open(self._directory / f"{name}.sealed")

    def _seal(self, path: Path, data: bytes) -> None:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, data, path.name.encode())
        write_atomically(path, sealed, mode=0o600)

    def _open(self, path: Path) -> bytes | None:
        try:
            sealed = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], path.name.encode())
        except (InvalidTag, ValueError):
            raise JournalDamaged(
                f"{path} was not written with this keystore or has been changed: remove every file of its round, "
                "to take part in the next"
            ) from None

    def state(self, before: int) -> bytes | None:
        """Return what the strategy kept after the client's last round below ``before``, or None."""
        path = _newest_state(self._until(before - 1))
        return self.read(_round_of(path), STATE) if path else None

    def forget_state(self, before: int) -> None:
        """Remove what ``state`` would return."""
        path = _newest_state(self._until(before - 1))
        self._remove([path] if path else [])

    def uploads(self) -> tuple[int, ...]:
        """Rounds that ``count_upload`` was told of, ascending."""
        path = self._directory / _UPLOADS
        try:
            data = self._open(path)
            return tuple(map(int, parse_json(data))) if data is not None else ()
        except (JournalDamaged, ValueError, TypeError):
            raise JournalDamaged(
                f"{path}, the rounds that it spent its privacy budget in, cannot be read: remove it, the ledger lists "
                "all of them that came to something"
            ) from None

    def count_upload(self, round_number: int) -> None:
        """Remember for good that an upload is made in a round; on disk and synced when this returns."""
        rounds = sorted({*self.uploads(), round_number})
        self._seal(self._directory / _UPLOADS, json.dumps(rounds).encode())

    def destroy(self, before: int) -> None:
        """Remove every file of the rounds up to and including ``before``, but for the newest state among them.

        Their secrets are gone for good.
        """
        over = self._until(before)
        self._remove(over - {_newest_state(over)})

    def _until(self, last: int) -> set[Path]:
        """Files of the rounds up to ``last``, what a killed writer left half written, too."""
        return {path for path in self._directory.iterdir() if -1 < _round_of(path) <= last}

    def _remove(self, paths: Collection[Path]) -> None:
        for path in paths:
            path.unlink()
        if paths:
            sync_directory(self._directory)

    def _path(self, round_number: int, name: str) -> Path:
        return self._directory / f"{round_number:08d}-{name}.sealed"


def _round_of(path: Path) -> int:
    """The round of a journal's file; -1 for any other file."""
    number = path.name.partition("-")[0]
    return int(number) if number.isdigit() else -1


def _newest_state(paths: Iterable[Path]) -> Path | None:
    return max((path for path in paths if path.name.endswith(f"-{STATE}.sealed")), key=_round_of, default=None)
