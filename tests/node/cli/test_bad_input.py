"""A user's mistake gets one sentence that says what to do, exit code 2, and loses nothing."""

import contextlib
import io
import os
import sys
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest
from fedgrove.node.cli.main import run

FEDERATION = """
[model]
name = "small-cnn"
input_shape = [1, 8, 8]
classes = 10
"""
NETWORK = """
[network]
rpc = "http://127.0.0.1:1"
ledger = "0x000000000000000000000000000000000000dEaD"
"""


@dataclass
class Result:
    returncode: int
    stdout: str
    stderr: str


def fedgrove(*arguments, cwd, password="secret password") -> Result:
    """Run the command in this process: importing it anew for every mistake would take most of the time."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, {"FEDGROVE_PASSWORD": password}),
        mock.patch.object(sys, "argv", ["fedgrove", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        run()
    return Result(end.value.code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a keystore, two configurations, a broken one, and things that are not what they seem."""
    folder = tmp_path_factory.mktemp("place")
    assert fedgrove("keys", "new", "alice.json", cwd=folder).returncode == 0
    (folder / "federation.toml").write_text(FEDERATION)
    (folder / "reached.toml").write_text(FEDERATION + NETWORK)
    (folder / "unknown.toml").write_text(FEDERATION + "[masking]\nmood = 1\n")
    (folder / "broken.toml").write_text("[model")
    (folder / "empty").mkdir()
    (folder / "text.car").write_text("not an archive")
    (folder / "text.json").write_text("not a keystore")
    (folder / "text.npz").write_text("not an archive")
    for name, count, side in (("tiny", 200, 2), ("few", 6, 8)):
        x, y = np.zeros((count, 1, side, side), np.float32), np.arange(count) % 3
        np.savez(folder / f"{name}.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    return folder


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "demo --clients 2",
        "demo --clients many",
        "demo --clients 99999999",
        "demo --rounds 0",
        "demo --alpha 0",
        "demo --alpha nan",
        "demo --drop 1",
        "demo --drop -0.1",
        "demo --drop nan",
        "demo --clients 4 --drop 0.25",
        "demo --seed -1",
        "demo --strategy best",
        "demo --masking none",
        "demo --dataset imagenet",
        "demo --dataset text.npz",
        "demo --dataset no.such.module:data",
        "demo --dataset tiny.npz",
        "demo --dataset few.npz --strategy fedavg",
        "demo --chain mainnet",
        "demo --chain http://127.0.0.1:1",
        "demo --store floppy",
        "demo --store http://127.0.0.1:1",
        "demo --out text.json",
        "demo --unknown",
        "audit",
        "audit nowhere",
        "audit empty",
        "audit empty --rpc http://127.0.0.1:1",
        "audit --rpc http://127.0.0.1:1",
        "audit --rpc http://127.0.0.1:1 --ledger 0x000000000000000000000000000000000000dEaD --store disk:empty",
        "audit --rpc http://127.0.0.1:1 --ledger 0x00 --store disk:empty",
        "audit --rpc http://127.0.0.1:1 --ledger 0x000000000000000000000000000000000000dEaD --store disk:nowhere",
        "audit verify nowhere.car",
        "audit export empty out.car",
        "audit export nowhere out.car",
        "keys new alice.json",
        "keys show nowhere.json",
        "keys show text.json",
        "keys backup nowhere.json backup.json",
        "keys backup alice.json alice.json",
        "keys restore nowhere.json new.json",
        "keys restore text.json new.json",
        "keys new empty/none/alice.json",
        "deploy --config nowhere.toml --keystore alice.json --rpc http://127.0.0.1:1",
        "deploy --config broken.toml --keystore alice.json --rpc http://127.0.0.1:1",
        "deploy --config unknown.toml --keystore alice.json --rpc http://127.0.0.1:1",
        "deploy --config federation.toml --keystore nowhere.json --rpc http://127.0.0.1:1",
        "deploy --config federation.toml --keystore alice.json --rpc http://127.0.0.1:1",
        "deploy --config federation.toml --keystore alice.json --rpc floppy",
        "deploy --config reached.toml --keystore alice.json --rpc http://127.0.0.1:1",
        "deploy --config federation.toml --keystore alice.json --rpc http://127.0.0.1:1 --coordinator me",
        "register --config federation.toml --keystore alice.json",
        "register --config reached.toml --keystore alice.json",
        "status --config federation.toml",
        "status --config reached.toml",
        "bench",
        "bench nonsense",
        "bench masking --parameters 1",
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(place, line):
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    result = fedgrove(*line.split(), cwd=place)
    assert result.returncode == 2, result.stdout + result.stderr
    if line and line not in ("audit", "bench"):  # these show their help
        said = result.stderr.strip()
        assert said.startswith("fedgrove: ") and "\n" not in said, said
        assert len(said) < 600
    assert "Traceback" not in result.stderr
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_a_wrong_password_is_a_sentence_and_shows_nothing(place):
    result = fedgrove("keys", "show", "alice.json", cwd=place, password="another password")
    assert result.returncode == 2
    assert "password" in result.stderr and "another" not in result.stderr and "\n" not in result.stderr.strip()


def test_an_archive_that_is_none_is_a_bad_record(place):
    result = fedgrove("audit", "verify", "text.car", cwd=place)
    assert result.returncode == 1 and "archive" in result.stderr


def test_a_directory_may_have_the_name_of_the_hidden_command(place):
    (place / "run").mkdir()
    result = fedgrove("audit", "run", cwd=place)
    assert result.returncode == 2 and "run does not hold a run" in result.stderr


def test_the_help_of_audit_shows_all_of_its_options(place):
    shown = fedgrove("audit", "--help", cwd=place).stdout
    assert all(
        f"--{name} " in shown for name in ("rpc", "follow", "webhook", "expect-statement", "certificate", "json")
    )


def test_a_run_is_never_written_over(place):
    (place / "kept").mkdir(exist_ok=True)
    (place / "kept" / "report.json").write_text("{}")
    result = fedgrove("demo", "--out", "kept", cwd=place)
    assert result.returncode == 2 and "is not empty" in result.stderr
    assert (place / "kept" / "report.json").read_text() == "{}"
