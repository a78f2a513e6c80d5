"""A client's durable record of a round: encrypted, written atomically, destroyed when the round is over.

Beside the note there are blobs by name: ``shares`` (this client's sealed shares), ``update`` (the result of local
training), ``masked`` (what was committed) and ``released`` (the shares it let go of); once written they never change.

What is here must survive a crash (the secrets behind keys that are already on the ledger, the local update, what was
released) and must not survive the round: ciphertexts stay on public storage for ever, so forward secrecy rests on the
destruction of these files (spec 02, step 1).
"""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from chain.strict_json import parse_json
from node.files import sync_directory, write_atomically

_NONCE_BYTES = 12
_MAX_NOTE_BYTES = 1 << 20


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
        nonce = os.urandom(_NONCE_BYTES)
        path = self._path(round_number, name)
        sealed = nonce + self._cipher.encrypt(nonce, data, path.name.encode())
        write_atomically(path, sealed, mode=0o600)

    def read(self, round_number: int, name: str) -> bytes | None:
        """Return what was stored under (round, name), or None."""
        path = self._path(round_number, name)
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

    def destroy(self, before: int) -> None:
        """Remove every file of the rounds up to and including ``before``: their secrets are gone for good."""
        removed = False
        for path in self._directory.iterdir():  # what a killed writer left half written, too
            number, _, _ = path.name.partition("-")
            if number.isdigit() and int(number) <= before:
                path.unlink()
                removed = True
        if removed:
            sync_directory(self._directory)

    def _path(self, round_number: int, name: str) -> Path:
        return self._directory / f"{round_number:08d}-{name}.sealed"
