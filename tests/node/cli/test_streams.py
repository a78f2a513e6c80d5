"""A command's answer is on stdout, how the work goes on is on stderr, and one module decides which is which."""

import ast
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from fedgrove.node.cli import main
from fedgrove.node.cli.listing import all_commands
from tests.node.cli.test_bad_input import fedgrove

ANSWERS = {
    "audit {run}": "audit: verified",
    "audit verify {place}/run.car": "audit: verified",
    "audit export {run} again.car": "wrote again.car",
    "history export {run} --csv tables": "wrote rounds.csv",
    "model save {run} model.safetensors": "wrote model.safetensors",
    "explorer {run} --export site --index indexes": "wrote ",
    "keys new alice.json": "0x",
    "keys show {place}/alice.json": "0x",
    "keys backup {place}/alice.json copy.json": "copy.json",
    "estimate --config {place}/federation.toml --members 3 --base-fee 1": "a round: ",
    "doctor": "python",
    "privacy plan --clients 1000 --rate 0.22 --rounds 54": "noise multiplier",
    "privacy spent --clients 100 --rate 0.5 --rounds 11 --noise-multiplier 1": "observers of models",
    "experiment list": "rounds_to_90",
    "simulate --clients 4 --rounds 1 --executor inline --set scenario.test_samples=50": "mean of last 20",
    "demo --clients 3 --rounds 1 --strategy fedavg --out run": "audit: verified",
    "kmeans --simulate --dataset gaussian --clients 4 --points 100": "induced loss",
    "bench privacy --parameters 1000": "measured",
    "attack protocol --dataset digits --quick --out attacks": "Written to attacks",
    "network down": "nothing was running",
    "task new mine": "wrote ",
    "completion bash": "complete",
    "--version": ".",
}
"""A line of each command, with words of its answer."""
ELSEWHERE = {
    "predict": "tests/node/cli/test_predict.py",
    "deploy": "tests/node/cli/test_membership.py",
    "register": "tests/node/cli/test_membership.py",
    "approve": "tests/node/cli/test_membership.py",
    "status": "tests/node/cli/test_status.py",
    "unlearn": "tests/node/cli/test_unlearn.py",
    "client": "a service: its log is on stderr, and it has no answer",
    "coordinator": "a service: its log is on stderr, and it has no answer",
}


@pytest.fixture(scope="module")
def place(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    assert fedgrove("keys", "new", "alice.json", cwd=folder).returncode == 0
    assert fedgrove("audit", "export", str(run.directory), "run.car", cwd=folder).returncode == 0
    model = '[model]\nname = "small-cnn"\ninput_shape = [1, 8, 8]\nclasses = 10\n'
    (folder / "federation.toml").write_text(model)
    return folder


def test_every_command_has_a_line_here_or_a_reason():
    lined = {line.split()[0] for line in ANSWERS}
    assert set(all_commands()) <= lined | set(ELSEWHERE) and not lined & set(ELSEWHERE)


@pytest.mark.parametrize("line", ANSWERS)
def test_an_answer_is_on_stdout_and_nothing_of_it_on_stderr(run, place, tmp_path, line):
    result = fedgrove(*line.format(run=run.directory, place=place).split(), cwd=tmp_path)
    assert result.returncode in (0, 1), result.stderr  # doctor may find something
    assert ANSWERS[line] in result.stdout
    answered = {words for words in result.stdout.splitlines() if words.strip()}
    assert not answered & set(result.stderr.splitlines())


def test_no_other_module_of_the_command_prints():
    for path in Path(main.__file__).parent.glob("*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert path.name == "output.py" or not names & {"print", "Console"}, path.name


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 12)
    except OSError:  # the other end is closed
        return b""


def test_a_bar_is_on_stderr_while_the_answer_goes_into_a_file(run, tmp_path):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fedgrove", "audit", str(run.directory)]
    variables = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b"".join(iter(lambda: _read(ours), b"")).decode()
        answer = process.stdout.read().decode()
    os.close(ours)
    assert process.returncode == 0 and answer.startswith("audit: verified") and "\x1b" not in answer
    assert "checking records" in shown and "0:00:00" in shown and "verified" not in shown


@pytest.mark.parametrize("buffered", [True, False], ids=["at once", "line by line"])
@pytest.mark.parametrize("command", ["audit", "doctor", "--help"])
def test_a_reader_that_has_seen_enough_is_no_bad_record(run, tmp_path, command, buffered):
    words = [command, str(run.directory)] if command == "audit" else [command]
    variables = os.environ | ({} if buffered else {"PYTHONUNBUFFERED": "1"})
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        result = subprocess.run(
            [sys.executable, "-m", "fedgrove", *words],
            cwd=tmp_path,
            env=variables,
            stdout=gone,
            stderr=subprocess.PIPE,
        )
    assert result.returncode == 141 and result.stderr == b""
