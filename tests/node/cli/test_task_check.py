"""``fedgrove task check`` says what is fine, and of a task that is not, why, where, and with which exit code."""

import json

import pytest

from fedgrove.node.cli import extras
from fedgrove.node.cli.output import CommandError
from fedgrove.node.cli.task_check import check
from fedgrove.node.tasks.beginning import begin
from fedgrove.node.tasks.lock import LOCK_NAME
from tests.node.cli.test_bad_input import fedgrove

TASK = """
import os
import time

import numpy as np
from torch import nn

import fedgrove as fg

COUNT = iter(range(99))


class Mine(fg.Task):
    def __init__(self, fault: str = ""):
        self.fault = fault

    def model(self):
        width = 4 + next(COUNT) if self.fault == "names" else 4
        return nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Linear(width, 2))

    def data(self, source):
        if self.fault == "raises":
            raise LookupError("no such column")
        x = np.random.default_rng(0).normal(size=(80, 3)) * (50 if self.fault == "large" else 1)
        y = np.arange(80) % 2
        return fg.Data((x[:60], y[:60]), (x[60:], y[60:]))

    def loss(self, output, target):
        if self.fault == "hangs":
            time.sleep(600)
        factor = {"nan": float("nan"), "random": 1 + int.from_bytes(os.urandom(8), "big") / 2**64}.get(self.fault, 1)
        return super().loss(output, target) * factor

    def metrics(self, output, target):
        auc = {"metric": float("nan"), "division": 1}.get(self.fault, 0)
        return super().metrics(output, target) | {"auc": target.sum() * 0 + auc if auc != 1 else 1 / 0}
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "task.py").write_text(TASK)
    (tmp_path / "data").write_text("")
    return tmp_path


def with_fault(place, fault: str) -> None:
    (place / "mine" / "terms.toml").write_text(f'[task]\nkeep = ["2.*"]\n[task.options]\nfault = "{fault}"\n')


def checked(place, *options, code=0) -> dict:
    result = fedgrove("task", "check", "mine", "--json", "--sandbox", "off", *options, cwd=place)
    assert result.returncode == code, result.stderr
    told = json.loads(result.stdout)
    assert told["ok"] == (code == 0)
    return {each["check"]: each for each in told["checks"]}


def test_a_sound_task_passes_every_check_and_nothing_is_written(place):
    found = checked(place, "--data", "data")
    assert found.pop("members")["result"] == "not checked"
    assert {each["result"] for each in found.values()} == {"ok"}
    shapes = {"0.bias": [4], "0.weight": [4, 3], "1.bias": [4], "1.weight": [4], "1.running_mean": [4]}
    shapes |= {"1.running_second_moment": [4], "2.bias": [2], "2.weight": [2, 4]}
    assert found["tensors"]["values"] == {"tensors": shapes, "parameters": 42, "upload_bytes": 172, "extras": 0}
    assert found["data"]["values"] == {"samples": 60, "held_out": 20}
    assert found["step"]["values"]["inputs"] == "float32 50×3" and found["step"]["values"]["output"] == "float32 50×2"
    assert found["evaluation"]["values"]["samples"] == 20
    assert [path.name for path in (place / "mine").iterdir()] == ["task.py"]


def test_what_stays_at_home_is_named_and_is_not_in_an_upload(place):
    with_fault(place, "")
    found = checked(place, "--data", "data")
    assert found["kept"]["values"]["kept"] == {"2.bias": [2], "2.weight": [2, 4]}
    assert found["tensors"]["values"]["upload_bytes"] == 4 * (32 + 1)


@pytest.mark.parametrize("held_out", [0.0, 0.25])
def test_what_members_are_to_evaluate_is_tried(place, held_out):
    terms = place / "mine" / "terms.toml"
    terms.write_text(f"[evaluation]\nheld_out = {held_out}\n")
    assert checked(place, "--data", "data")["members"]["values"]["metrics"] == ["auc", "loss", "right", "squared_loss"]
    terms.write_text(f'[evaluation]\nheld_out = {held_out}\nmetrics = ["squared_error"]\n')
    found = checked(place, "--data", "data", code=1)["members"]
    assert found["result"] == "failed" and "gives no squared_error: see evaluation.metrics" in found["sentence"]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("metric", "the metric auc is not a finite number (task.py, line 34)"),
        ("division", "its metrics raised ZeroDivisionError: division by zero (task.py, line 36)"),
    ],
)
def test_a_metric_that_is_no_number_fails_with_its_place(place, fault, sentence):
    with_fault(place, fault)
    with (place / "mine" / "terms.toml").open("a") as file:
        file.write('[evaluation]\nmetrics = ["right", "auc"]\n')
    found = checked(place, "--data", "data", code=1)
    failed = {name: each["sentence"] for name, each in found.items() if each["result"] == "failed"}
    named = ["members"] if fault == "metric" else ["evaluation", "members"]
    assert failed == dict.fromkeys(named, sentence)


@pytest.mark.parametrize(
    ("fault", "check", "sentence"),
    [
        ("names", "tensors", "a second model has 0.bias 5, not 4"),
        ("raises", "data", "the task raised LookupError: no such column (task.py, line 23)"),
        ("nan", "step", "the loss is not finite (task.py, line 28)"),
        ("hangs", "step", "ran for more than"),
        ("random", "determinism", "the same step gave other bytes in"),
        ("large", "bound", "1.running_second_moment reaches"),
    ],
)
def test_a_fault_fails_the_check_that_looks_for_it(place, fault, check, sentence):
    with_fault(place, fault)
    stopped = ("--timeout", "20") if fault == "hangs" else ()
    found = checked(place, "--data", "data", *stopped, code=1)
    assert [name for name, each in found.items() if each["result"] == "failed"] == [check]
    assert sentence in found[check]["sentence"]


def test_each_check_is_a_line(place):
    result = fedgrove("task", "check", "mine", "--data", "data", cwd=place)
    names = ["bundle", "loads", "tensors", "kept", "data", "step", "determinism", "rounds", "bound"]
    names += ["evaluation", "members"]
    assert result.returncode == 0 and [line[13:26].strip() for line in result.stdout.splitlines()] == names


def test_without_data_the_example_data_of_the_folder_are_used(tmp_path):
    begin(tmp_path / "mine", "images")
    found = checked(tmp_path)
    assert found["data"]["values"]["samples"] == 100 and found["determinism"]["result"] == "ok"


def test_without_any_data_the_code_alone_is_checked(place):
    found = checked(place)
    assert found["tensors"]["result"] == "ok"
    assert found["data"]["result"] == found["evaluation"]["result"] == "not checked"
    assert "give --data" in found["data"]["sentence"]


def test_other_versions_are_a_warning(place):
    lock = {"format": "fedgrove-task-lock-1", "packages": {"fedgrove": "0.1.0", "numpy": "0.5", "torch": "0.1"}}
    (place / "mine" / LOCK_NAME).write_text(json.dumps(lock, indent=2, sort_keys=True) + "\n")
    found = checked(place)
    assert found["bundle"]["result"] == "warning" and "in place of 0.5" in found["bundle"]["sentence"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("import nothing_of_this_name\n", "task.py, line 1 imports"), ("def broken(:\n", "task.py")],
)
def test_a_folder_that_cannot_be_packed_fails(place, text, sentence):
    (place / "mine" / "task.py").write_text(text)
    found = checked(place, code=1)
    assert list(found) == ["bundle"] and sentence in found["bundle"]["sentence"]


def test_terms_that_cannot_be_are_named(place):
    (place / "mine" / "terms.toml").write_text("[training]\nepochs = 0\n")
    assert "mine/terms.toml: training.epochs must be" in checked(place, code=1)["bundle"]["sentence"]


def test_what_a_strategy_sends_and_keeps_is_counted(place):
    moon = checked(place, "--data", "data", "--strategy", "moon")
    assert moon["tensors"]["values"]["upload_bytes"] == 172
    assert moon["kept"]["sentence"].endswith("moon keeps 136 bytes of a client from round to round")
    weights = 4 * 3 + 4 + 4 + 4 + 2 * 4 + 2
    assert moon["kept"]["values"]["state_bytes"] == 4 * weights
    fedcurv = checked(place, "--data", "data", "--strategy", "fedcurv")
    assert fedcurv["tensors"]["values"]["extras"] == 2 * weights
    assert fedcurv["tensors"]["values"]["upload_bytes"] == 172 + 4 * 2 * weights
    assert " and 68 values of fedcurv, 444 bytes an upload" in fedcurv["tensors"]["sentence"]
    assert {each["result"] for name, each in fedcurv.items() if name != "members"} == {"ok"}


def test_the_terms_of_a_file_say_how_to_check(place):
    name = fedgrove("task", "pack", "mine", cwd=place).stdout.strip()
    terms = '[federation]\nrounds = 5\n[strategy]\nname = "moon"\n[training]\nportable = true\n'
    terms += '[task]\nbundle = "{}"\nkeep = ["2.*"]\n'
    (place / "federation.toml").write_text(terms.format(name))
    found = checked(place, "--data", "data", "--config", "federation.toml")
    assert found["kept"]["values"]["kept"] == {"2.bias": [2], "2.weight": [2, 4]}
    assert found["kept"]["values"]["state_bytes"] == 4 * (4 * 3 + 4 + 4 + 4)
    (place / "federation.toml").write_text(terms.format("b" + 58 * "a"))
    found = checked(place, "--data", "data", "--config", "federation.toml", code=1)
    assert "federation.toml names the task baaa" in found["bundle"]["sentence"]


def test_without_torch_one_sentence_says_what_to_install(place, monkeypatch):
    monkeypatch.setitem(extras.EXTRAS, "learning", ("torch_of_nobody",))
    with pytest.raises(CommandError) as fault:
        check(place / "mine")
    expected = '`fedgrove task check`, which trains a step, needs torch_of_nobody: pip install "fedgrove[learning]"'
    assert str(fault.value) == expected
