"""A keystore whose parameters cost gigabytes or minutes, or which is no file at all.

Who attacks: whoever gives a member a keystore or a backup to restore, or may replace one. It wants the machine's
memory, or a command that never ends, before any password was right or wrong.

What stops it: scrypt's parameters may ask for no more work than those of the keystores that are written here; the file
is a regular one, of bounded size and depth.
"""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from fedgrove.chain.crypto.keys import Keys, load, save
from fedgrove.common.errors import InvalidInput
from tests.adversary.bounded import HANGS, bounded

BOMBS = [
    {"n": 1 << 20, "r": 15, "p": 1},  # 8.6 s, 2 GB
    {"n": 1 << 20, "r": 8, "p": 16},
    {"n": 1 << 18, "r": 8, "p": 16},  # a quarter of the memory, and minutes
    {"n": 2, "r": 1, "p": 1 << 29},
    {"n": 2, "r": 1 << 29, "p": 1},
    {"n": 2, "r": 1 << 20, "p": 1},
    {"n": 1 << 19, "r": 8, "p": 1},
    {"n": 10**4000, "r": 1, "p": 1},
    {"n": -2, "r": -8, "p": 1},
]


@pytest.fixture
def keystore(tmp_path):
    """A keystore that opens, and a function that gives both its entries other parameters."""
    path = tmp_path / "alice.json"
    save(path, Keys.generate(), "secret", cost=2)

    def with_parameters(**parameters):
        document = json.loads(path.read_text())
        for crypto in (document["crypto"], document["fedgrove"]["crypto"]):
            crypto["kdfparams"].update(parameters)
        path.write_text(json.dumps(document))
        return path

    return with_parameters


@pytest.mark.parametrize("parameters", BOMBS)
def test_parameters_that_cost_more_than_any_keystore_needs_are_refused_before_any_work(keystore, parameters):
    path = keystore(**parameters)
    started = time.monotonic()
    told = bounded(lambda: load(path, "secret"), seconds=20, mebibytes=64)
    assert told.kind is InvalidInput and "n * r * p at most" in told.message
    assert len(told.message) < 300 and time.monotonic() - started < 1


@pytest.mark.parametrize("parameters", [{"n": 1 << 12, "r": 8, "p": 6}, {"n": 1 << 18, "r": 8, "p": 1}])
def test_what_wallets_write_is_tried(keystore, parameters):
    """The light and the standard parameters of other wallets: a password that does not fit is what is said."""
    told = bounded(lambda: load(keystore(**parameters), "secret"), seconds=60, mebibytes=512)
    assert "password is wrong" in told.message


@pytest.mark.parametrize("name", ["/dev/zero", "pipe", "deep.json", "numbers.json"])
def test_something_else_than_a_keystore_is_one_sentence(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "deep.json").write_bytes(b"[" * 200_000)
    (tmp_path / "numbers.json").write_bytes(b'{"crypto": ' + b"9" * 200_000 + b"}")
    told = bounded(lambda: load(tmp_path / name, "secret"), seconds=10, mebibytes=64)
    assert told.kind is InvalidInput


def test_an_endless_password_file_ends(tmp_path):
    command = [sys.executable, "-m", "fedgrove.node.cli", "keys", "show", "none.json", "--password-file", "/dev/zero"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, env=environment())
    assert result.returncode == 2 and "Traceback" not in result.stderr


def test_a_password_that_is_no_text_is_one_sentence(tmp_path, keystore):
    shutil.copy(keystore(), tmp_path / "mine.json")
    command = [sys.executable, "-m", "fedgrove.node.cli", "keys", "show", "mine.json"]
    variables = {os.fsencode(name): os.fsencode(value) for name, value in environment().items()}
    variables[b"FEDGROVE_PASSWORD"] = b"\xff\xfe"
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, env=variables)
    assert result.returncode == 2 and "Traceback" not in result.stderr and "Unicode" in result.stderr


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


# --- the attack wins where the mend is taken out ----------------------------------------------------------------------


@pytest.mark.mutants
def test_without_the_bound_a_keystore_takes_as_long_as_it_likes(keystore, monkeypatch):
    monkeypatch.setattr("fedgrove.chain.crypto.secret_storage.MAX_WORK", 1 << 40)
    monkeypatch.setattr("fedgrove.chain.crypto.secret_storage.MAX_BLOCKS", 1 << 40)
    path = keystore(n=1 << 18, r=8, p=64)
    assert bounded(lambda: load(path, "secret"), seconds=5, mebibytes=1024) == HANGS


@pytest.mark.mutants
def test_without_the_bound_a_keystore_takes_gigabytes(keystore, monkeypatch):
    monkeypatch.setattr("fedgrove.chain.crypto.secret_storage.MAX_WORK", 1 << 40)
    path = keystore(n=1 << 20, r=15, p=1)
    told = bounded(lambda: load(path, "secret"), seconds=60, mebibytes=1024)
    assert told.kind is not InvalidInput  # scrypt itself fails for want of memory
