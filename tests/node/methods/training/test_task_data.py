"""A member's data under a task: what comes out of the sandbox is what training in this process gives, or a sentence."""

import csv
import math
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fedgrove.node.learning.held_out import HoldOutRule, mark_of, split
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.learning.settings import EvaluationSettings, TrainingSettings
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.learning.tasks.loading import load_task
from fedgrove.node.learning.tasks.task import dataset_of
from fedgrove.node.learning.training import build, evaluate, first_tensors, train
from fedgrove.node.methods.training.hold_out import HoldOut
from fedgrove.node.methods.training.metric_sums import fault_of, sums_of
from fedgrove.node.methods.training.task_data import PRELOADED, TaskData, TaskFailed, TaskProcess
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.protocol.metric_words import MetricSums
from fedgrove.node.protocol.terms import FederationConfig, MaskingSettings, StrategySettings
from fedgrove.node.tasks.sandbox.limits import JobLimits
from fedgrove.node.tasks.sandbox.settings import Mode, Visible
from fedgrove.node.tasks.sandbox.worker import Reply, Worker
from tests.node.learning.tasks.examples import table

BUNDLE = "bafybei" + "a" * 52
POSITION = {"number": 2, "rounds": 5, "seed": 7}
CODE = """
import time
import numpy as np
import torch
from torch import nn
import fedgrove as fg

class Points(fg.Task):
    def __init__(self, hidden=6, fault="", dropout=0.0):
        self.hidden, self.fault, self.dropout = hidden, fault, dropout

    def model(self):
        width, last = self.hidden, [nn.Dropout(self.dropout)] * (self.dropout > 0)
        return nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 3), *last)

    def data(self, source):
        table = np.loadtxt(source, delimiter=",", dtype=np.float32)
        pair = (table[:, :4], table[:, 4].astype(np.int64))
        return fg.Data(pair, held_out=pair)

    def loss(self, output, target):
        if self.fault == "raise":
            raise RuntimeError("no luck")
        if self.fault == "nan":
            return super().loss(output, target) * float("nan")
        if self.fault == "hang":
            time.sleep(600)
        return super().loss(output, target)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("task")
    (root / "task").mkdir()
    (root / "task" / "task.py").write_text(CODE)
    x, y = table(60, 1)
    with (root / "data.csv").open("w", newline="") as file:
        csv.writer(file).writerows([*map(float, row), int(label)] for row, label in zip(x, y, strict=True))
    return root


def terms(strategy="fedavg", keep=(), **options):
    return FederationConfig(
        method=TrainingTerms(),
        task=TaskSettings(BUNDLE, tuple(keep), options),
        training=TrainingSettings(epochs=1, batch_size=16, learning_rate=0.1),
        strategy=StrategySettings(strategy),
    )


@contextmanager
def process_on(place, source="data.csv", seconds=60.0, **limits):
    visible = Visible(place / "task", place / source)
    process = TaskProcess(Worker(Mode.OFF, visible, JobLimits(seconds, **limits), preload=PRELOADED))
    try:
        yield process
    finally:
        process.close()


@pytest.fixture(scope="module")
def process(place):
    """One for all terms and clients: jobs leave nothing behind."""
    with process_on(place) as process:
        yield process


def in_this_process(place, config, state=None):
    task = load_task(place / "task", config.task.options)
    strategy, keep = make_strategy(config.strategy.name), config.task.keep
    data = dataset_of(task.data(place / "data.csv").train)
    start = first_tensors(task, strategy, 0, keep)
    model = build(task, keep)
    return train(model, data, start, strategy, config.training, client=3, state=state, **POSITION)


def same(first, second):
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("strategy", "keep"), [("fedavg", ()), ("moon", ()), ("fedprox", ("1.*",)), ("fedcurv", ())])
def test_a_round_in_the_sandbox_has_the_bytes_of_a_round_here(place, process, strategy, keep, monkeypatch):
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    config = terms(strategy, keep)
    data = TaskData(config, process)
    model = data.first_model()
    first = data.start(model, POSITION, 3, {}).result()
    second = data.start(model, POSITION, 3, first.state).result()
    expected = in_this_process(place, config)
    assert same(first.tensors, expected.tensors) and same(first.state, expected.state)
    assert first.loss == pytest.approx(expected.loss) and first.samples == 60
    assert same(second.tensors, in_this_process(place, config, expected.state).tensors)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device and a CUDA build of torch")
@pytest.mark.parametrize("strategy", ["fedavg", "moon"])
def test_a_task_on_a_gpu_trains_as_on_the_processor_and_repeatably(place, strategy):
    config = terms(strategy, dropout=0.2)
    with process_on(place, memory=None) as process:
        here, there = (TaskData(config, process, device=device) for device in ("cpu", "cuda"))
        model = here.first_model()
        assert same(model, there.first_model())
        wanted, update, again = (data.start(model, POSITION, 3, {}).result() for data in (here, there, there))
        assert same(update.tensors, again.tensors)
        for name, values in wanted.tensors.items():
            np.testing.assert_allclose(update.tensors[name], values, rtol=1e-2, atol=1e-3, err_msg=name)
        assert there.evaluate(wanted.tensors).loss == pytest.approx(here.evaluate(wanted.tensors).loss, rel=1e-4)


def test_a_task_describes_its_model_and_what_it_keeps(place, process):
    data = TaskData(terms(keep=("1.*",), hidden=9), process)
    found = data.description
    assert (found.samples, found.held_out) == (60, 60) and data.holds_out
    assert dict(zip(found.model.names, found.model.shapes, strict=True))["0.weight"] == (9, 4)
    assert {name.split(".")[0] for name in found.kept.names} == {"home/1"}


def test_clients_that_practise_on_one_source_share_its_samples_out(place, process):
    config = terms()
    data = TaskData(config, process, part=(0, 7))
    assert len(data) == 9
    data = TaskData(config, process, part=(6, 7))
    assert len(data) == 8
    data = TaskData(config, process, part=(0, 61))
    with pytest.raises(TaskFailed, match="60 samples for 61 clients"):
        len(data)


def test_statistics_do_not_travel_where_updates_are_clipped(place, process):
    private = ClientLevelSettings(epsilon=8.0, delta=1e-3, noise_multipliers=(1.0,), clip=1.0)
    config = replace(terms(), privacy=private, masking=MaskingSettings(masked="delta"))
    data = TaskData(config, process)
    assert not any("running" in name for name in data.first_model())


def test_samples_are_counted_by_label_and_a_loss_is_their_mean(place, process):
    data = TaskData(terms(), process)
    labels = np.loadtxt(place / "data.csv", delimiter=",")[:, 4].astype(int)
    assert data.label_counts(5).tolist() == np.bincount(labels, minlength=5).tolist()
    model = data.first_model()
    found = data.evaluate(model)
    assert found.accuracy is not None and 0 <= found.accuracy <= 1 and found.loss > 0 and found.samples == 60
    assert data.training_loss(model) == found.loss  # this task holds out what it trains on


def test_labels_that_the_terms_do_not_know_are_a_sentence(place, process):
    with pytest.raises(TaskFailed, match="targets must be labels from 0 to 1: see procfl"):
        TaskData(terms(), process).label_counts(2)


@pytest.mark.parametrize("counts", [None, [60], [30, -30, 60], [1, 2, 3], [20.0, 20, 20]])
def test_counts_that_cannot_be_are_not_believed(place, process, monkeypatch, counts):
    data = TaskData(terms(), process)
    assert len(data) == 60
    monkeypatch.setattr(process, "run", lambda *job: SimpleNamespace(header={"counts": counts}, tensors={}))
    with pytest.raises(TaskFailed, match=r"answer cannot be right|does not say how many samples there are"):
        data.label_counts(3)


def test_a_task_that_raises_is_named_with_file_and_line_and_can_go_on(place, process):
    data = TaskData(terms(fault="raise"), process)
    model = data.first_model()
    for _ in range(2):
        with pytest.raises(TaskFailed, match=r"the task raised RuntimeError: no luck \(task.py, line 23\)"):
            data.start(model, POSITION, 3, {}).result()


def test_a_task_that_returns_nan_has_diverged(place, process):
    data = TaskData(terms(fault="nan"), process)
    with pytest.raises(DivergedTraining, match="client 3 diverged"):
        data.start(data.first_model(), POSITION, 3, {}).result()


def test_a_task_that_hangs_is_stopped(place, process):
    config = terms(fault="hang")
    model = TaskData(config, process).first_model()
    with process_on(place, seconds=5.0) as brief:
        data = TaskData(config, brief)
        assert len(data) == 60
        with pytest.raises(TaskFailed, match="ran for more than 5 s and was stopped"):
            data.start(model, POSITION, 3, {}).result()
        assert TaskData(terms(), brief).evaluate(model).samples == 60


def test_a_process_is_ended_in_the_middle_of_a_job(place, process):
    config = terms(fault="hang")
    with process_on(place, seconds=600.0) as ended:
        data = TaskData(config, ended)
        future = data.start(data.first_model(), POSITION, 3, {})
        assert not future.done()
    with pytest.raises(TaskFailed):
        future.result(timeout=30)


def test_data_that_are_not_there_and_options_that_do_not_fit_are_sentences(place, process):
    data = TaskData(terms(depth=3), process)
    with pytest.raises(TaskFailed, match=r"task\.options do not fit Points"):
        len(data)
    (place / "words.csv").write_text("one,two\n")
    with process_on(place, "words.csv") as words, pytest.raises(TaskFailed, match=r"task\.py, line 17"):
        len(TaskData(terms(), words))


def test_a_state_of_another_model_is_refused(place, process):
    data = TaskData(terms(keep=("1.*",)), process)
    with pytest.raises(TaskFailed, match="keeps other tensors at home"):
        data.start(data.first_model(), POSITION, 3, {"home/odd": np.zeros(1, np.float32)}).result()


class Kept:
    """A journal in memory, and keys, as far as a member's rule needs them."""

    def __init__(self):
        self.blobs = {}
        self.kept, self.keep = self.blobs.get, self.blobs.__setitem__

    def derived(self, purpose):
        return bytes(range(32))


def evaluating(place, process, held_out, metrics=("right",), **options):
    config = replace(terms(**options), evaluation=EvaluationSettings(held_out, metrics))
    kept = Kept()
    return TaskData(config, process).evaluating(HoldOut(kept, kept, config.evaluation.millionths)), kept


def test_a_member_evaluates_on_the_share_that_its_rule_holds_out(place, process, monkeypatch):
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    data, kept = evaluating(place, process, 0.25)
    model = data.first_model()
    update = data.start(model, POSITION, 3, {}).result()
    assert len(data) == 60 and data.description.held_out == update.measured.samples == 15
    task = load_task(place / "task", {})
    own = dataset_of(task.data(place / "data.csv").train)
    rule = HoldOutRule(bytes(range(32)), 250_000)
    found = split([mark_of(own[index], rule) for index in range(60)], rule)
    assert kept.blobs["held_out"] == rule.secret + found.boundary
    inner = build(task)
    sums = evaluate(inner, own.take(found.held_out), model, squares=True)
    assert update.measured.totals == pytest.approx(sums.totals) and "squared_loss" in sums.totals
    strategy = make_strategy("fedavg")
    expected = train(build(task), own.take(found.train), model, strategy, terms().training, client=3, **POSITION)
    assert same(update.tensors, expected.tensors)


def test_without_a_rule_a_member_evaluates_on_what_its_task_holds_out(place, process):
    data, kept = evaluating(place, process, 0.0)
    model = data.first_model()
    update = data.start(model, POSITION, 3, {}).result()
    assert update.measured.samples == 60 and len(kept.blobs["held_out"]) == 32
    assert same(update.tensors, TaskData(terms(), process).start(model, POSITION, 3, {}).result().tensors)


def test_a_loss_that_is_no_number_is_told_as_one_that_is_as_large_as_words_carry(place, process):
    data, _ = evaluating(place, process, 0.25, fault="nan")
    measured = data.held_out_sums(data.first_model(), {})
    assert measured.totals["loss"] == measured.totals["squared_loss"] == math.inf
    assert MetricSums.measured(15, measured.totals).sums["loss"] == 2**47 - 1


def test_a_task_that_raises_while_it_evaluates_is_named(place, process):
    data, _ = evaluating(place, process, 0.25, fault="raise")
    with pytest.raises(TaskFailed, match=r"RuntimeError: no luck \(task.py, line"):
        data.start(data.first_model(), POSITION, 3, {}).result()


class Scripted:
    """A task's process that answers what a test says."""

    def __init__(self, **answers):
        self.answers = {"describe": DESCRIBED, "measure": MEASURED} | answers

    def run(self, job, *_):
        return Reply(self.answers[job], {}, 0.0, 0)


DESCRIBED = {"samples": 60, "held_out": 15, "boundary": "7f" * 32, "model": {"w": [2]}, "kept": {}}
MEASURED = {
    "samples": 15,
    "totals": {"right": 3.0, "loss": 1.0, "squared_loss": 2.0},
    "names": ["loss", "right", "squared_loss"],
}


def test_an_answer_that_can_be_is_believed():
    data, kept = evaluating(None, Scripted(), 0.25)
    assert data.held_out_sums({"w": np.zeros(2, np.float32)}, {}).totals["right"] == 3.0
    assert kept.blobs["held_out"] == bytes(range(32)) + b"\x7f" * 32


@pytest.mark.parametrize(
    "answers",
    [
        {"describe": DESCRIBED | {"boundary": None}},
        {"describe": DESCRIBED | {"boundary": "7f" * 33}},
        {"describe": DESCRIBED | {"boundary": "zz" * 32}},
        {"measure": MEASURED | {"samples": 16}},
        {"measure": MEASURED | {"samples": None}},
        {"measure": MEASURED | {"names": "right"}},
        {"measure": MEASURED | {"totals": [1]}},
    ],
    ids=str,
)
def test_an_answer_that_cannot_be_fails_in_a_sentence(answers):
    data, kept = evaluating(None, Scripted(**answers), 0.25)
    with pytest.raises(TaskFailed):
        data.held_out_sums({"w": np.zeros(2, np.float32)}, {})
    assert len(kept.blobs["held_out"]) in (32, 64)


@pytest.mark.parametrize("right", [16, -1, math.nan, None])
def test_right_answers_that_cannot_be_cost_the_metrics_alone(right):
    totals = {name: value for name, value in (MEASURED["totals"] | {"right": right}).items() if value is not None}
    data, _ = evaluating(None, Scripted(measure=MEASURED | {"totals": totals}), 0.25)
    found = data.held_out_sums({"w": np.zeros(2, np.float32)}, {})
    assert "more right answers than samples" in fault_of(found, EvaluationSettings())
    assert sums_of(found, EvaluationSettings()).samples == 0


def test_what_a_task_says_of_its_metrics_is_cut_to_a_printable_line():
    data, _ = evaluating(None, Scripted(measure=MEASURED | {"fault": "\x1b[31m" + 1000 * "x"}), 0.25)
    fault = data.held_out_sums({"w": np.zeros(2, np.float32)}, {}).fault
    assert len(fault) == 300 and fault.isprintable()
