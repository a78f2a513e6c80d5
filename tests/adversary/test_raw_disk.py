"""A thief of the disk and the keystore: what a client has destroyed must not come back.

Who attacks: whoever gets a client's disk, bit for bit, and its keystore with the password: a thief, a court, the next
owner of the machine. It wants the mask secrets of past rounds, which open the uploads that lie on public storage for
ever, and the points that the client was asked to forget. It looks at every byte of the disk, free blocks and the file
system's own journal included.

What stops it: the journal's files are encrypted under keys of their own, which are overwritten where they lie on the
disk when the round is over or the file is replaced.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property

import numpy as np
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Drawn
from fedgrove.node.base.files import write_atomically
from fedgrove.node.base.key_slots import ID_BYTES, Slots, keeps_overwritten
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.client import RoundSecrets
from fedgrove.node.protocol.journal import Journal
from tests.adversary.media import Disk
from tests.node.devnet.kmeans_members import TERMS
from tests.node.devnet.kmeans_members import Federation as Clustering
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
NONCE, TAGGED_KEY, NAMED, SALT = 12, 48, 68, 16
PURPOSE = b"fedgrove sealed stream 1 "
NOTE = (b'{"committed":', b'{"made":', b'{"order":', b'{"round":')
REQUEST, TENSORS = b'{"rows":[', b'{"'
LOOK = 1 << 16


class Thief:
    """Has the raw bytes of a disk and the storage key out of the keystore, and knows how the journal is made.

    A file is of use only with its first bytes: without the salt in them, no key of a slot opens any of it.
    """

    def __init__(self, raw: bytes, storage: bytes) -> None:
        self._raw = raw
        self._storage = storage

    @cached_property
    def keys(self) -> dict[bytes, bytes]:
        """Every key that lies sealed under the storage key at any offset, and its id."""
        cipher, found = ChaCha20Poly1305(self._storage), {}
        for at in self._offsets:
            named = self._raw[max(0, at - NAMED) : at]
            nonce, sealed = self._raw[at : at + NONCE], self._raw[at + NONCE : at + NONCE + TAGGED_KEY]
            with suppress(InvalidTag):
                found[cipher.decrypt(nonce, sealed, named)] = named[4 : 4 + ID_BYTES]
        return found

    @cached_property
    def plain(self) -> list[bytes]:
        """All that any of its keys opens, of every file that begins with the key's id, to something of a journal."""
        return [text for key, name in self.keys.items() for text in self._opened(key, name)]

    @property
    def secrets(self) -> list[RoundSecrets]:
        """The secrets of rounds in the notes that it found."""
        notes = (text.partition(b"}")[0] + b"}" for text in self.plain if text.startswith(NOTE))
        return [RoundSecrets.from_bytes(bytes.fromhex(json.loads(note)["secrets"])) for note in notes]

    def holds(self, piece: bytes) -> bool:
        """Whether a piece of data is in what it found."""
        return any(piece in text for text in self.plain)

    @cached_property
    def _offsets(self) -> list[int]:
        """Where a nonce may begin: everywhere but in long runs of zeros."""
        zero = np.frombuffer(self._raw, np.uint8) == 0
        runs = np.convolve(zero, np.ones(NONCE, np.uint8), "valid") == NONCE
        return np.flatnonzero(~runs[: -NONCE - TAGGED_KEY]).tolist()

    @cached_property
    def _names(self) -> set[bytes]:
        """The names of all files of a journal, those removed among them, out of the directories' blocks."""
        return set(re.findall(rb"[a-z0-9-]+\.sealed", self._raw))

    def _opened(self, key: bytes, key_id: bytes) -> Iterator[bytes]:
        for found in re.finditer(re.escape(key_id), self._raw):
            at = found.end() + SALT
            for name in self._names:
                derived = HKDF(SHA256(), 32, self._raw[found.end() : at], PURPOSE + name).derive(key)
                for last in (0, 1):
                    text = self._decrypted(derived, bytes(NONCE - 1) + bytes([last]), at)
                    if text.startswith((*NOTE, REQUEST)) or text[2:10] == bytes(6) + TENSORS:
                        yield text

    def _decrypted(self, key: bytes, nonce: bytes, at: int) -> bytes:
        # The tag needs the file's length, which a thief does not know. ChaCha20 itself opens any part of a file.
        cipher = Cipher(algorithms.ChaCha20(key, b"\x01\0\0\0" + nonce), None)
        return cipher.encryptor().update(self._raw[at : at + LOOK])


@pytest.fixture
def disk(tmp_path):
    return Disk(tmp_path)


def train(disk: Disk, tmp_path, until: str = "") -> tuple[Federation, Thief]:
    """A federation whose journals are on the disk, to its end or until client 1 has said a word; and its thief."""
    with embedded() as network, disk.mounted() as point:
        federation = Federation.found(network, tmp_path / "public", clients=3, rounds=1, training=QUICK)
        federation.directory = point
        federation.register()
        coordinator, clients = federation.coordinator(), federation.clients()
        while federation.turn(coordinator, clients):
            if until in federation.said("client 1"):
                break
        federation.draws = {record.client: record for record in federation.of(Drawn)}
    return federation, Thief(disk.raw(), federation.keys[0].storage)


def opens_upload(federation: Federation, thief: Thief) -> bool:
    """Whether the thief has the mask secret behind the key that client 1 drew with."""
    return federation.draws[1].mask_key in {secrets.mask_key for secrets in thief.secrets}


def forget(disk: Disk, tmp_path) -> tuple[Thief, bytes, bytes]:
    """K-means; client 2 forgets a point. The thief of its disk, the point that went and one that stayed."""
    with embedded() as network, disk.mounted() as point:
        federation = Clustering.found(network, tmp_path / "public", TERMS, 3)
        federation.directory = point
        for number in (1, 2, 3):
            federation.client(number).register()
        federation.run({1, 2, 3})
        federation.ask(2, [7])
        federation.run({1, 2, 3})
    gone, left = (federation.parts[1][row].astype("<f8").tobytes() for row in (7, 8))
    return Thief(disk.raw(), federation.keys[1].storage), gone, left


# --- the attack fails -----------------------------------------------------------------------------------------------


def test_secrets_of_a_round_are_gone_from_the_disk_when_it_is_over(disk, tmp_path):
    federation, thief = train(disk, tmp_path)
    assert not opens_upload(federation, thief)
    assert thief.plain == []


def test_the_thief_finds_the_secrets_of_a_round_that_runs(disk, tmp_path):
    """They must outlive a crash. It also shows that the thief knows where to look."""
    assert opens_upload(*train(disk, tmp_path, until="committed"))


def test_forgotten_points_are_gone_from_the_disk(disk, tmp_path):
    thief, gone, left = forget(disk, tmp_path)
    assert thief.holds(left)  # points that nobody took back are there: the thief knows where to look
    assert not thief.holds(gone)


KINDS = ("note", "shares", "update", "masked", "released", "state")
KEPT = ("points", "comparison", "shown", "evidence-1-2", "uploads")


def marked(name: str, version: int) -> bytes:
    return REQUEST + f"{name} in version {version}".encode()


def test_nothing_that_a_journal_replaced_or_destroyed_is_on_the_disk_nor_the_keys_to_it(disk, monkeypatch):
    made, add = [], Slots.add

    def noted(self, scope):
        made.append(add(self, scope))
        return made[-1]

    monkeypatch.setattr(Slots, "add", noted)
    storage = bytes(range(32))
    with disk.mounted() as point:
        for number in range(1, 4):
            journal = Journal(point / "journal", storage)
            for name in KINDS:
                journal.write(number, name, marked(name, number))
            for name in KEPT:
                journal.keep(name, marked(name, number))
            journal.destroy(before=number - 1)
        journal.destroy(before=3)
    raw = disk.raw()
    thief = Thief(raw, storage)
    # Of each kind but the newest version nothing is left, and of what belongs to rounds the state alone.
    versions = {(name, number) for name in (*KINDS, *KEPT) for number in (1, 2, 3) if thief.holds(marked(name, number))}
    assert versions == {("state", 3), *((name, 3) for name in KEPT)}
    # A key that was destroyed is nowhere, neither bare nor in its slot: no search could find it.
    alive = {key.id for key in made if b"KEY1" + key.id in raw}
    assert len(made) == 3 * (2 + len(KEPT)) and len(alive) == 1 + len(KEPT)
    assert not any(key.key in raw for key in made)


def test_a_file_system_with_all_data_in_its_own_journal_keeps_a_copy_and_is_named(tmp_path):
    """What no program can help: the node says so when it starts, and docs/threat-model.md says it too."""
    disk, storage = Disk(tmp_path), bytes(range(32))
    with disk.mounted("loop,data=journal") as point:
        assert keeps_overwritten(point) == "ext4 with data=journal"
        journal = Journal(point / "journal", storage)
        journal.write(1, "note", marked("note", 1))
        journal.destroy(before=1)
    assert Thief(disk.raw(), storage).holds(marked("note", 1))
    with disk.mounted() as point:
        assert keeps_overwritten(point) == ""


# --- the attack wins where the mend is taken out ----------------------------------------------------------------------


def keys_stay(monkeypatch):
    """Files go, their keys do not."""
    monkeypatch.setattr(Slots, "destroy_others", lambda self, kept: None)


def keys_move(monkeypatch):
    """The slot file is replaced as other files are, so that the old one's blocks keep what they held."""

    def replaced(self, places, slot):
        data = bytearray(self._path.read_bytes())
        for place in places:
            data[place : place + len(slot)] = slot
        write_atomically(self._path, bytes(data), 0o600)

    monkeypatch.setattr(Slots, "_overwrite", replaced)


@pytest.mark.mutants
@pytest.mark.parametrize("mutate", [keys_stay, keys_move])
def test_without_the_mend_a_thief_opens_an_upload_of_the_past(disk, tmp_path, monkeypatch, mutate):
    mutate(monkeypatch)
    assert opens_upload(*train(disk, tmp_path))


@pytest.mark.mutants
@pytest.mark.parametrize("mutate", [keys_stay, keys_move])
def test_without_the_mend_a_thief_has_the_forgotten_point(disk, tmp_path, monkeypatch, mutate):
    mutate(monkeypatch)
    thief, gone, _ = forget(disk, tmp_path)
    assert thief.holds(gone)
