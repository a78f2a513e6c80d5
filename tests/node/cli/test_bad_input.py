"""A user's mistake gets one sentence that says what to do, exit code 2, and loses nothing."""

import contextlib
import io
import os
import re
import shlex
import sys
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest

from fedgrove.node.cli.main import run
from tests.node.cli.mistakes import MISTAKES, SHORT
from tests.node.simulation.own_task import table, write_task

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


SMALL = """
[scenario]
clients = 6
train_samples = 150
test_samples = 60
[federation]
rounds = 3
sampling_rate = 0.5
[training]
epochs = 1
[strategy]
name = "fedavg"
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


def files(folder) -> dict:
    """Content of all files below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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
    (folder / "latin.toml").write_bytes(b'[federation]\nname = "\xff\xfe"\n')
    (folder / "deep.toml").write_text(f"a = {2000 * '['}{2000 * ']'}")
    for name, content in (
        ("empty.toml", b""),
        ("nothing", b""),
        ("list.json", b"[1]"),
        ("text.safetensors", 40 * b"x"),
    ):
        (folder / name).write_bytes(content)
    (folder / "four.toml").write_text(FEDERATION + "[federation]\nrounds = 4\n")
    (folder / "task.toml").write_text(f'[task]\nbundle = "bafybeie{52 * "a"}"\n[strategy]\nname = "fedavg"\n')
    (folder / "small.toml").write_text(SMALL)
    private = "[privacy]\nmechanism = 'client'\nepsilon = 0.01\nnoise_multipliers = [1.0]\n"
    (folder / "private.toml").write_text(SMALL + private)
    write_task(folder / "points")
    (folder / "points.csv").write_text(table(40, 1))
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "loose.npz")
    for name, file, content in (("garbage", "ledger.jsonl", b"\0{"), ("task", "task.py", b"raise ValueError('boom')")):
        (folder / name).mkdir()
        (folder / name / file).write_bytes(content)
    np.savez(folder / "object.npz", x_train=np.array([{}] * 3, dtype=object), y_train=np.arange(3))
    np.savez(folder / "ok.npz", x_train=np.zeros((30, 1, 8, 8), np.float32), y_train=np.arange(30) % 10)
    for name, count, side in (("tiny", 200, 2), ("few", 6, 8)):
        x, y = np.zeros((count, 1, side, side), np.float32), np.arange(count) % 3
        np.savez(folder / f"{name}.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    return folder


@pytest.mark.parametrize("mistake", ["", *MISTAKES])
def test_a_mistake_is_one_sentence_and_exit_code_2(place, request, mistake):
    line, _, words = mistake.partition(" | ")
    known = SHORT | ({"RUN": str(request.getfixturevalue("run").directory)} if "RUN" in line else {})
    before = files(place)
    spelt = re.sub(rf"\b({'|'.join(known)})\b", lambda found: known[found[0]], line)
    result = fedgrove(*shlex.split(spelt), cwd=place)
    assert result.returncode == 2, result.stdout + result.stderr
    if line and line not in ("audit", "bench"):  # these show their help
        *notes, said = result.stderr.strip().splitlines()
        assert said.startswith("fedgrove: ") and words in said, said
        assert len(said) < 1000 and not any(note.startswith("fedgrove: ") for note in notes), result.stderr
        assert not notes or line.startswith("network up"), "how to install what is missing"
    assert "Traceback" not in result.stderr
    assert files(place) == before


def test_a_wrong_password_is_a_sentence_and_shows_nothing(place):
    result = fedgrove("keys", "show", "alice.json", cwd=place, password="another password")
    assert result.returncode == 2
    assert "password" in result.stderr and "another" not in result.stderr and "\n" not in result.stderr.strip()


def test_an_archive_that_is_none_is_a_bad_record(place):
    for command in ("audit verify", "audit"):
        result = fedgrove(*command.split(), "text.car", cwd=place)
        assert result.returncode == 1 and "archive" in result.stdout


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
