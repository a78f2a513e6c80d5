"""A federation's file that no parser should be given.

Who attacks: whoever founds a federation and sends its TOML file to all members, or replaces it. It wants their commands
to end in a traceback, or not to end: brackets without end, keys of many parts (which Python's parser takes hours for),
numbers that Python refuses to write, a pipe or a device in place of the file.

What stops it: files are regular and bounded; nesting, keys and numbers are bounded before and behind the parser.
"""

import os
import tomllib

import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.methods.terms import load_config
from tests.adversary.bounded import HANGS, bounded

DIGITS = "9" * 5000
BITS = "0x" + "f" * 100_000
BOMBS = {
    "brackets": "a = " + "[" * 900_000,
    "closed brackets": "a = " + "[" * 10_000 + "]" * 10_000,
    "tables in tables": "a = " + "{a = " * 100_000,
    "a key of many parts": ".".join("a" * 400_000) + " = 1",
    "a table of many parts": "[" + ".".join("a" * 400_000) + "]",
    "brackets behind a string that ends in a quote": 'a = [ """x"""", ' + "[" * 10_000 + ', "y" ]',
    "a string that does not end": 'a = """' + '\\"' * 400_000,
    "many digits": f"[federation]\nrounds = {DIGITS}",
    "many bits": f"[federation]\nrounds = {BITS}",
    "many bits for a name": f"[federation]\nname = {BITS}",
    "many bits for a choice": f"[masking]\nmode = {BITS}",
    "many bits for a fraction": f"[masking]\nbound = {BITS}",
    "many bits on the ledger": f"[ledger]\nquorum = {BITS}",
    "many bits in a list": f"[network]\nrpc = [{BITS}]",
    "an endless key": "a" * 900_000 + " = 1",
    "an endless mechanism": f'[privacy]\nmechanism = "{"a" * 900_000}"',
}


def read(path):
    return bounded(lambda: load_config(path), seconds=20, mebibytes=512)


@pytest.mark.parametrize("name", BOMBS)
def test_each_is_refused_in_one_short_sentence(tmp_path, name):
    path = tmp_path / "federation.toml"
    path.write_text(f"[model]\n{BOMBS[name]}\n" if name.startswith("an endless key") else f"{BOMBS[name]}\n")
    told = read(path)
    assert told.kind is InvalidConfig and len(told.message) < 1000


@pytest.mark.parametrize("name", ["/dev/zero", "pipe", "folder"])
def test_so_is_a_path_that_is_no_file(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    told = read(tmp_path / name)
    assert told.kind is InvalidConfig and "regular file" in told.message


def test_dots_in_values_are_no_nesting(tmp_path):
    path = tmp_path / "federation.toml"
    many = ", ".join(["0.5"] * 100)
    path.write_text(f'[network]\nrpc = ["http://{"a." * 40}example:1"]\n[privacy]\nnoise_multipliers = [{many}]\n')
    assert "privacy.mechanism" in read(path).message  # what is wrong is another thing


@pytest.mark.mutants
def test_without_the_mend_a_key_of_many_parts_is_parsed_for_hours(tmp_path, monkeypatch):
    monkeypatch.setattr("fedgrove.node.methods.terms.parse_toml", lambda data: tomllib.loads(data.decode()))
    path = tmp_path / "federation.toml"
    path.write_text(BOMBS["a key of many parts"])
    assert bounded(lambda: load_config(path), seconds=5) == HANGS


@pytest.mark.mutants
def test_without_the_mend_brackets_and_digits_are_tracebacks(tmp_path, monkeypatch):
    monkeypatch.setattr("fedgrove.node.methods.terms.parse_toml", lambda data: tomllib.loads(data.decode()))
    monkeypatch.setattr("fedgrove.node.base.strict_tables._shown", repr)
    monkeypatch.setattr("fedgrove.node.base.strict_tables._MAX_BITS", 1 << 30)
    path = tmp_path / "federation.toml"
    for name in ("closed brackets", "many bits for a name"):
        path.write_text(BOMBS[name])
        assert read(path).kind is not InvalidConfig, name
