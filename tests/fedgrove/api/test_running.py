"""``fedgrove.demo`` and ``fedgrove.simulate``: what the commands do, without text between."""

import doctest
import json
import subprocess
import sys
from pathlib import Path

import pandas
import pytest
import torch

import fedgrove as fg
from fedgrove.api import demonstrating, simulating
from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.methods.training.task_data import TaskFailed
from tests.node.cli.test_bad_input import fedgrove
from tests.node.simulation.own_task import TASK, table, write_task

EVERYBODY = {"federation.sampling_rate": 1}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a task, the same in one file, and its data."""
    folder = tmp_path_factory.mktemp("place")
    write_task(folder / "points")
    (folder / "single.py").write_text(TASK)
    (folder / "points.csv").write_text(table(60, 1))
    return folder


@pytest.mark.parametrize("module", [fg, demonstrating, simulating], ids=lambda module: module.__name__)
def test_the_examples_of_the_docstrings_are_true(module):
    found = doctest.testmod(module)
    assert found.attempted and not found.failed


def test_a_simulation_is_that_of_the_command_and_models_are_those_of_their_rounds(place):
    options = ("--task", "points", "--data", "points.csv", "--clients", "3", "--rounds", "3", "--seeds", "4")
    told = fedgrove(
        *("simulate", *options, "--set", "federation.sampling_rate=1", "--executor", "inline", "--out", "kept/a"),
        "--json",
        cwd=place,
    )
    (theirs,) = json.loads(told.stdout)["runs"]
    said: list[str] = []
    run = fg.simulate(
        place / "points",
        place / "points.csv",
        clients=3,
        rounds=3,
        seed=4,
        settings=EVERYBODY,
        out=place / "kept" / "b",
        keep_models=True,
        progress=said.append,
    )
    assert run.report["model_digest"] == theirs["record"]["model_digest"]
    assert run.report["rounds"] == theirs["record"]["rounds"]
    assert [(each.round, each.committed_clients, each.accuracy) for each in run.rounds] == [
        (each["round"], tuple(each["clients"]), each["accuracy"]) for each in theirs["record"]["rounds"]
    ]
    assert len(said) == 3 and said[-1] == f"round 3 of 3: accuracy {run.rounds[-1].accuracy:.4f}"
    assert run.path == place / "kept/b/seed-4" and (place / "kept/b/accuracy.png").exists()
    first, last = run.model(1), run.model(3)
    assert all(torch.equal(last[name], run.model()[name]) for name in last)
    assert any(not torch.equal(first[name], last[name]) for name in first)
    # With the class and what its folder suggests: running statistics stay at home.
    assert "1.running_var" not in last and "1.weight" in last


def test_models_that_were_not_kept_and_what_a_simulation_has_not_are_sentences(place):
    run = fg.simulate(place / "single.py", place / "points.csv", clients=3, rounds=2, settings=EVERYBODY)
    assert run.path is None and "2 rounds" in repr(run)
    with pytest.raises(InvalidInput, match="round 1 was not kept: simulate with keep_models=True"):
        run.model(1)
    with pytest.raises(AttributeError, match="no history"):
        _ = run.history
    with pytest.raises(AttributeError, match="no verdict"):
        _ = run.verdict


def test_a_run_is_resumed_and_another_is_refused(place):
    given = {"clients": 3, "settings": EVERYBODY, "out": place / "resumed"}
    first = fg.simulate("digits", rounds=1, **given)
    with pytest.raises(InvalidInput, match="holds this run up to round 1"):
        fg.simulate("digits", rounds=1, **given)
    assert fg.simulate("digits", rounds=1, resume=True, **given).report == first.report
    with pytest.raises(InvalidInput, match="resume needs out"):
        fg.simulate("digits", resume=True)


def test_a_demonstration_of_a_class_is_audited_and_goes_with_its_run(place, monkeypatch):
    monkeypatch.syspath_prepend(str(place))
    from single import Points

    said: list[str] = []
    settings = {"training.epochs": 2, "task.options.hidden": 5, "masking.bound": 16}
    run = fg.demo(
        Points, place / "points.csv", clients=3, rounds=2, settings=settings, explorer=True, progress=said.append
    )
    assert run.verdict.verdict == "verified" == run.report["audit"]["verdict"]
    assert [(each.round, each.status, each.committed_clients) for each in run.rounds] == [
        (number, "closed", (1, 2, 3)) for number in (1, 2)
    ]
    assert run.rounds[-1].accuracy == run.report["rounds"][-1]["accuracy"]
    module = Points(hidden=5).model()
    missing, unexpected = module.load_state_dict(run.model(), strict=False)
    assert missing == [] and unexpected == []
    assert torch.equal(module[1].running_var, run.model(2)["1.running_var"])
    assert run.history.terms["training"]["epochs"] == 2 and run.history.terms["masking"]["bound"] == 16
    assert any(words.startswith("watch: http://127.0.0.1") for words in said) and "auditing" in said
    assert fg.audit(run.path).verdict == "verified"
    path = run.path
    del run
    assert not path.exists()


def test_a_history_is_a_frame_with_the_columns_of_its_tables(run):
    history = fg.History(run.directory)
    frame = history.frame()
    assert frame["round"].tolist() == [1, 2] and frame["accuracy"].tolist() == [
        each.accuracy for each in history.rounds
    ]
    assert len(history.frame("records")) == len(history.records)
    assert isinstance(frame, pandas.DataFrame)


def test_a_round_that_nobody_evaluated_has_no_figures(place):
    settings = {"task.options.fault": "nothing held out"}
    run = fg.demo(place / "points", place / "points.csv", clients=3, rounds=1, settings=settings)
    assert [(each.status, each.accuracy, each.loss) for each in run.rounds] == [("closed", None, None)]
    (row,) = run.history.frame().to_dict("records")
    assert row["accuracy"] is None and row["loss"] is None and row["samples"] is None
    assert run.history.frame("metrics")[["metric", "value"]].values.tolist() == [["raised", 0]]


def test_a_script_without_a_guard_gives_its_class_to_the_sandbox(place, tmp_path):
    end = (
        "run = fg.simulate(Points, {!r}, clients=2, rounds=1, settings={!r})\nprint(run.rounds[0].committed_clients)\n"
    )
    (tmp_path / "script.py").write_text(TASK + "\n\n" + end.format(str(place / "points.csv"), EVERYBODY))
    told = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert told.returncode == 0 and told.stdout == "(1, 2)\n", told.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda place: fg.demo(place / "points"), InvalidConfig, "scenario.data is missing"),
        (lambda place: fg.demo("digits", clients=2), InvalidConfig, "clients must be a whole number from 3 to 1000"),
        (lambda place: fg.demo("digits", clients="3"), InvalidConfig, "clients must be .* not '3'"),
        (lambda place: fg.demo("digits", rounds=0), InvalidConfig, "rounds must be a whole number from 1 to 100000"),
        (lambda place: fg.demo("no-such", place / "points.csv"), InvalidInput, "no-such is neither a task's folder"),
        (lambda place: fg.simulate("digits", place / "points.csv"), InvalidInput, "only a task reads data"),
        (lambda place: fg.demo("digits", drop=1), InvalidConfig, "drop must be from 0 to below 1"),
        (
            lambda place: fg.demo("digits", settings={"scenario.table_format.delimiter": ";"}),
            InvalidConfig,
            "leave it out with a data set",
        ),
        (lambda place: fg.demo("digits", out=place), InvalidConfig, "is not empty .* nothing was changed"),
        (lambda place: fg.demo("no-such"), fg.InvalidInput, "unknown dataset 'no-such'"),
        (lambda place: fg.simulate(place / "points"), InvalidConfig, "scenario.data is missing"),
        (lambda place: fg.simulate("digits", method="best"), InvalidConfig, "method must be training, or one of"),
        (lambda place: fg.simulate("digits", settings={"a.b": 1}), fg.InvalidInput, "unknown table a"),
        (
            lambda place: fg.simulate(
                place / "single.py",
                place / "points.csv",
                clients=2,
                rounds=1,
                settings=EVERYBODY | {"task.options.fault": "raises"},
            ),
            TaskFailed,
            r"in round 1: the task raised RuntimeError: no loss today \(single.py, line",
        ),
    ],
)
def test_mistakes_are_sentences(place, call, kind, sentence):
    with pytest.raises(kind, match=sentence):
        call(place)


def test_a_demonstration_is_evaluated_and_logged_and_goes_on_after_an_interruption(tmp_path):
    options = {"clients": 3, "rounds": 2, "strategy": "fedavg", "held_out": 0.25, "out": tmp_path / "run"}
    said: list[str] = []

    def stop(words: str) -> None:
        said.append(words)
        if said.count("coordinator opened a round") == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fg.demo("digits", **options, progress=stop)
    with pytest.raises(InvalidInput, match=r"began with another evaluation\.held_out"):
        fg.demo("digits", **options | {"held_out": 0.5}, resume=True)
    run = fg.demo("digits", **options, resume=True, log_to=[f"csv:{tmp_path / 'figures.csv'}"])
    assert [each.status for each in run.rounds] == ["closed"] * 3 and run.verdict.verdict == "verified"
    assert run.history.terms["evaluation"]["held_out"] == 0.25
    assert {line.split(",")[1] for line in (tmp_path / "figures.csv").read_text().splitlines()[1:]} == {"1", "2", "3"}


@pytest.mark.parametrize(
    ("wrong", "said"), [({"log_to": ["book:x"]}, "must be tensorboard:DIR"), ({"resume": True}, "resume needs out")]
)
def test_a_log_or_a_run_that_cannot_be_is_named(wrong, said):
    with pytest.raises(InvalidInput, match=said):
        fg.demo("digits", clients=3, rounds=1, **wrong)


def test_a_simulation_logs_its_rounds(tmp_path):
    log = tmp_path / "figures.csv"
    settings = {"federation.sampling_rate": 1, "scenario.test_samples": 50}
    fg.simulate("digits", clients=3, rounds=2, settings=settings, log_to=[f"csv:{log}"])
    assert {line.split(",")[1] for line in log.read_text().splitlines()[1:]} == {"1", "2"}
