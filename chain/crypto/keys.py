"""A member's keys, and the one encrypted file that keeps them.

Four secrets, none used for two purposes: the account signs, the VRF key draws, the mailbox key receives messages, the
storage key encrypts what a client keeps on its own disk.
"""

import json
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedgrove.chain.crypto import secret_storage, vrf
from fedgrove.chain.crypto.account import Account
from fedgrove.chain.crypto.secret_storage import STANDARD_COST
from fedgrove.common.errors import InvalidInput
from fedgrove.common.regular_file import read_regular
from fedgrove.common.wire import Digest, Malformed, Table, parse_json

MAX_KEYSTORE_BYTES = 1 << 18
MAX_PAST_MAILBOXES = 256
_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


@dataclass(frozen=True, repr=False)
class Keys:
    """The secrets of one member; ``repr`` shows only what is public.

    Attributes
    ----------
    account : Account
        Signs transactions.
    vrf : bytes
        Secret VRF key, 32 bytes big-endian.
    mailbox : bytes
        X25519 private key, 32 bytes.
    storage : bytes
        32 bytes for authenticated encryption of local state.
    past_mailboxes : tuple of bytes
        Mailbox keys before rotation, oldest first, so that old messages can be read.
    """

    account: Account
    vrf: bytes
    mailbox: bytes
    storage: bytes
    past_mailboxes: tuple[bytes, ...] = ()

    @classmethod
    def generate(cls) -> "Keys":
        """Fresh keys from the operating system's generator."""
        return cls(Account(_secret_scalar()), _secret_scalar(), os.urandom(32), os.urandom(32))

    @property
    def address(self) -> str:
        """The account's checksummed address."""
        return self.account.address

    @cached_property
    def vrf_public(self) -> bytes:
        """The compressed VRF public key, 33 bytes."""
        return vrf.public_key(self.vrf)

    @cached_property
    def mailbox_public(self) -> bytes:
        """The X25519 public key, 32 bytes."""
        return X25519PrivateKey.from_private_bytes(self.mailbox).public_key().public_bytes_raw()

    def derived(self, purpose: bytes) -> bytes:
        """A secret of 32 bytes for one purpose, which tells nothing of the keys or of those for others."""
        return HKDF(SHA256(), 32, None, purpose).derive(self.storage)

    def with_new_vrf(self) -> "Keys":
        """These keys with a fresh VRF key. Save them before the ledger hears of it: a lost VRF key cannot draw."""
        return replace(self, vrf=_secret_scalar())

    def with_new_mailbox(self) -> "Keys":
        """These keys with a fresh mailbox key; the old one is kept for old messages."""
        past = (*self.past_mailboxes, self.mailbox)[-MAX_PAST_MAILBOXES:]
        return replace(self, mailbox=os.urandom(32), past_mailboxes=past)

    def __repr__(self) -> str:
        public = f"vrf_public={self.vrf_public.hex()}, mailbox_public={self.mailbox_public.hex()}"
        return f"Keys(address={self.address}, {public})"


def save(path: Path, keys: Keys, password: str, cost: int = STANDARD_COST) -> None:
    """Write the keystore, replacing an older one at once: readers see the old file or the new one, never a part.

    Wallets that read version 3 secret storage can open the account in it. ``cost`` is scrypt's N; the default takes
    about a second and 256 MiB.
    """
    _write(path, _to_json(keys, password, cost), overwrite=True)


def load(path: Path, password: str) -> Keys:
    """Read a keystore.

    Raises
    ------
    InvalidInput
        The password does not open it, or the file was altered.
    InvalidInput
        The file cannot be read, or is no keystore.
    """
    document = _read(path)
    try:
        entries = (document["crypto"], document["fedgrove"]["crypto"])
    except (KeyError, TypeError):
        raise InvalidInput(
            f"{path} is not a fedgrove keystore; give the file that `fedgrove keys new` wrote."
        ) from None
    account, secrets = secret_storage.unseal(entries, password)
    return _from_plain(path, account, secrets)


def backup(path: Path, password: str, target: Path, backup_password: str, cost: int = STANDARD_COST) -> Keys:
    """Write all keys of a keystore to ``target`` under a password of its own; an existing file is never replaced."""
    keys = load(path, password)
    _write(target, _to_json(keys, backup_password, cost), overwrite=False)
    return keys


def restore(source: Path, backup_password: str, path: Path, password: str, cost: int = STANDARD_COST) -> Keys:
    """Write a keystore out of a backup, whose integrity is checked first; an existing file is never replaced."""
    keys = load(source, backup_password)
    _write(path, _to_json(keys, password, cost), overwrite=False)
    return keys


class _Secrets(Table, frozen=True):
    """What is sealed apart from the account's key, which it names; keys in hexadecimal."""

    account: str
    mailbox: Digest
    storage: Digest
    vrf: Digest
    past_mailboxes: tuple[Digest, ...] = ()


def _to_json(keys: Keys, password: str, cost: int) -> bytes:
    past = tuple(key.hex() for key in keys.past_mailboxes)
    secrets = _Secrets(keys.address, keys.mailbox.hex(), keys.storage.hex(), keys.vrf.hex(), past)
    account, others = secret_storage.seal((keys.account.key, secrets.to_bytes()), password, cost)
    document = {
        "version": 3,
        "id": str(uuid.uuid4()),
        "address": keys.address.removeprefix("0x").lower(),
        "crypto": account,
        "fedgrove": {"version": 1, "crypto": others},
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _from_plain(path: Path, account_key: bytes, secrets: bytes) -> Keys:
    """Join the two entries; the second names the account, so entries of two files cannot be mixed."""
    try:
        found = _Secrets.from_bytes(secrets)
        own, mailbox, storage = map(bytes.fromhex, (found.vrf, found.mailbox, found.storage))
        keys = Keys(Account(account_key), own, mailbox, storage, tuple(map(bytes.fromhex, found.past_mailboxes)))
        sound = found.account == keys.address and len(keys.vrf_public) == 33
    except Exception:
        # Whatever went wrong, its message could quote a secret, so neither it nor its kind is passed on.
        sound = False
    if not sound:
        raise InvalidInput(f"{path} was altered: its entries do not belong together; restore it from its backup.")
    return keys


def _read(path: Path) -> Any:
    try:
        data = read_regular(path, MAX_KEYSTORE_BYTES)
    except OSError as fault:
        raise InvalidInput(f"Cannot read {path} ({fault.strerror}); give the path of your keystore file.") from None
    try:
        if len(data) > MAX_KEYSTORE_BYTES:
            raise Malformed("too large")
        return parse_json(data)
    except Malformed:
        raise InvalidInput(f"{path} is not a keystore, or is damaged; restore it from its backup.") from None


def _write(path: Path, data: bytes, overwrite: bool) -> None:
    """Write and sync a file next to the target, readable by its owner only, and then give it the target's name."""
    part = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex}")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if overwrite:
                os.replace(part, path)
            else:
                os.link(part, path)  # fails where the name is taken, which a rename would not
        finally:
            with suppress(FileNotFoundError):
                os.unlink(part)
        _sync_directory(path.parent)
    except FileExistsError:
        raise InvalidInput(f"{path} already exists and was not changed; give another file.") from None
    except OSError as fault:
        raise InvalidInput(f"Cannot write {path} ({fault.strerror}); choose a place that you can write to.") from None


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _secret_scalar() -> bytes:
    """A uniform secret key of secp256k1, by rejection."""
    while True:
        candidate = os.urandom(32)
        if 0 < int.from_bytes(candidate, "big") < _ORDER:
            return candidate
