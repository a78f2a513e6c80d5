"""Keys and the keystore: what is shown, what is refused, and that a kill leaves a whole file."""

import hashlib
import json
import os
import stat
import subprocess
import sys

import pytest
from eth_account import Account

from fedgrove.chain.crypto import keys as keystore
from fedgrove.chain.crypto import secret_storage
from fedgrove.chain.crypto.keys import Keys, backup, load, restore, save
from fedgrove.common.errors import InvalidInput

COST = 2


@pytest.fixture
def keys():
    return Keys.generate()


@pytest.fixture
def path(tmp_path, keys):
    save(tmp_path / "alice.json", keys, "secret", COST)
    return tmp_path / "alice.json"


def edit(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_what_was_saved_is_loaded(path, keys):
    assert load(path, "secret") == keys


def test_repr_shows_nothing_secret(keys):
    keys = keys.with_new_mailbox()
    shown = repr(keys) + str(keys) + f"{keys}"
    for secret in (keys.account.key, keys.vrf, keys.mailbox, keys.storage, *keys.past_mailboxes):
        assert bytes(secret).hex() not in shown
        assert repr(bytes(secret)) not in shown
    assert keys.address in shown


def test_a_derived_secret_is_for_one_purpose_and_lasts_while_the_keys_do(keys):
    one = keys.derived(b"one")
    assert one == keys.with_new_vrf().with_new_mailbox().derived(b"one") and len(one) == 32
    assert len({one, keys.derived(b"other"), Keys.generate().derived(b"one"), keys.storage}) == 4


def test_the_account_opens_as_a_standard_wallet(path, keys):
    assert Account.decrypt(json.loads(path.read_text()), "secret") == keys.account.key


def test_the_file_is_its_owners_alone(path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["alice.json"]


def test_nothing_secret_is_readable_in_the_file(path, keys):
    text = path.read_text()
    for secret in (bytes(keys.account.key), keys.vrf, keys.mailbox, keys.storage):
        assert secret.hex() not in text


def test_a_wrong_password_is_told(path):
    with pytest.raises(InvalidInput, match="password"):
        load(path, "Secret")


def test_an_empty_password_is_refused(tmp_path, keys):
    with pytest.raises(InvalidInput, match="empty"):
        save(tmp_path / "x.json", keys, "", COST)


@pytest.mark.parametrize("kept", [0, 1, 200, 900])
def test_a_truncated_file_is_told(path, kept):
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InvalidInput, match=r"alice\.json"):
        load(path, "secret")


@pytest.mark.parametrize("entry", [("crypto",), ("fedgrove", "crypto")])
@pytest.mark.parametrize("field", ["ciphertext", "mac", "iv"])
def test_an_altered_byte_is_told(path, entry, field):
    def flip(document):
        crypto = document
        for name in entry:
            crypto = crypto[name]
        place = crypto["cipherparams"] if field == "iv" else crypto
        place[field] = ("0" if place[field][0] != "0" else "1") + place[field][1:]

    edit(path, flip)
    with pytest.raises(InvalidInput):
        load(path, "secret")


def test_scrypt_runs_once_for_a_file_and_the_counters_of_its_entries_differ(path, monkeypatch):
    derived, scrypt = [], hashlib.scrypt
    monkeypatch.setattr(hashlib, "scrypt", lambda *values, **named: derived.append(named) or scrypt(*values, **named))
    save(path, load(path, "secret"), "other", COST)
    assert len(derived) == 2  # one to open the old file, one to write the new one
    document = json.loads(path.read_text())
    assert len({entry["cipherparams"]["iv"] for entry in (document["crypto"], document["fedgrove"]["crypto"])}) == 2


def test_a_file_whose_entries_have_salts_of_their_own_opens(path, keys):
    """As in keystores of earlier versions."""

    def sealed_again(document):
        secrets = secret_storage.unseal([document["fedgrove"]["crypto"]], "secret")
        [document["fedgrove"]["crypto"]] = secret_storage.seal(secrets, "secret", COST)

    edit(path, sealed_again)
    assert load(path, "secret") == keys


def test_entries_cannot_change_places(path):
    def swap(document):
        document["crypto"], document["fedgrove"]["crypto"] = document["fedgrove"]["crypto"], document["crypto"]

    edit(path, swap)
    with pytest.raises(InvalidInput, match="belong together"):
        load(path, "secret")


def test_entries_of_two_files_cannot_be_mixed(path, tmp_path):
    other = tmp_path / "other.json"
    save(other, Keys.generate(), "secret", COST)
    foreign = json.loads(other.read_text())
    edit(path, lambda document: document.update(fedgrove=foreign["fedgrove"]))
    with pytest.raises(InvalidInput, match="belong together"):
        load(path, "secret")


@pytest.mark.parametrize(
    ("name", "value"), [("n", 1 << 40), ("n", 3), ("r", 1 << 20), ("p", 0), ("n", "2"), ("n", True)]
)
def test_costs_that_would_exhaust_the_machine_are_refused(path, name, value):
    edit(path, lambda document: document["crypto"]["kdfparams"].update({name: value}))
    with pytest.raises(InvalidInput):
        load(path, "secret")


def test_a_missing_or_oversized_file_is_told(tmp_path):
    with pytest.raises(InvalidInput, match="Cannot read"):
        load(tmp_path / "none.json", "secret")
    big = tmp_path / "big.json"
    big.write_bytes(b" " * (keystore.MAX_KEYSTORE_BYTES + 1))
    with pytest.raises(InvalidInput, match="not a keystore"):
        load(big, "secret")


def test_backup_and_restore(path, tmp_path, keys):
    copy, fresh = tmp_path / "copy.json", tmp_path / "fresh.json"
    backup(path, "secret", copy, "other", COST)
    with pytest.raises(InvalidInput):
        load(copy, "secret")
    assert restore(copy, "other", fresh, "third", COST) == keys
    assert load(fresh, "third") == keys
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_backup_and_restore_never_overwrite(path, tmp_path):
    before = path.read_bytes()
    copy = tmp_path / "copy.json"
    backup(path, "secret", copy, "other", COST)
    with pytest.raises(InvalidInput, match="already exists"):
        restore(copy, "other", path, "third", COST)
    with pytest.raises(InvalidInput, match="already exists"):
        backup(path, "secret", copy, "other", COST)
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["alice.json", "copy.json"]


def test_rotation_replaces_one_key_and_keeps_old_mailboxes(path, keys):
    rotated = keys.with_new_mailbox().with_new_vrf().with_new_mailbox()
    assert rotated.past_mailboxes[0] == keys.mailbox
    assert len(rotated.past_mailboxes) == 2
    assert rotated.vrf != keys.vrf
    assert (rotated.account, rotated.storage) == (keys.account, keys.storage)
    save(path, rotated, "secret", COST)
    assert load(path, "secret") == rotated


def test_a_kill_between_write_and_rename_leaves_the_old_file(path, keys):
    killed = (
        "import os, pathlib, sys\n"
        "from fedgrove.chain.crypto import keys\n"
        "os.replace = lambda *names: os.kill(os.getpid(), 9)\n"
        f"keys.save(pathlib.Path(sys.argv[1]), keys.Keys.generate(), 'new', {COST})\n"
    )
    result = subprocess.run([sys.executable, "-c", killed, str(path)], env=os.environ, timeout=60, check=False)
    assert result.returncode == -9
    assert load(path, "secret") == keys


def test_a_directory_that_does_not_exist_is_told(tmp_path, keys):
    with pytest.raises(InvalidInput, match="Cannot write"):
        save(tmp_path / "no" / "x.json", keys, "secret", COST)
