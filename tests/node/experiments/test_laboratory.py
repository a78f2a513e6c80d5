"""Each run is made once, goes on where it was stopped, and is in the store as soon as it has ended."""

from hashlib import sha256

import pytest

from node.experiments import rounds_to_90
from node.experiments.base import Overrides
from node.experiments.laboratory import Request, Workshop, conduct
from node.experiments.store import RunStore
from node.learning.training import DivergedTraining
from node.simulation import run
from node.simulation.executors import open_executor
from node.tensors import dump

SMALL = Overrides(rounds=3, clients=4, sampled=0.5, dataset="digits", train_samples=200, test_samples=40)


class Watch:
    """Writes down what it is told, and stops the work when it is asked to."""

    def __init__(self, stop_after: int = 0) -> None:
        self.begun, self.rounds = [], []
        self._stop_after = stop_after

    def begin(self, label, plan):
        self.begun.append((label, plan.seed))

    def advance(self, result):
        self.rounds.append(result.round)
        if len(self.rounds) == self._stop_after:
            raise KeyboardInterrupt


def request(out, **changes) -> Request:
    return Request(rounds_to_90.EXPERIMENT, out, **{"seeds": (0, 1), "overrides": SMALL, **changes})


def work(tmp_path, asked: Request, watch: Watch) -> dict:
    store = RunStore(asked.out)
    with Workshop(tmp_path / "work", None, lambda: open_executor("inline"), watch) as workshop:
        conduct(asked.pending(store), store, workshop, keep_models=False)
        return asked.findings(store, workshop).records


def files(out) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "runs").iterdir()}


def test_arms_run_seed_by_seed_and_only_once(tmp_path):
    watch, again = Watch(), Watch()
    records = work(tmp_path, request(tmp_path / "a"), watch)
    assert watch.begun == [("fedavg", 0), ("fedaom", 0), ("fedavg", 1), ("fedaom", 1)]
    assert {label: [r.plan.seed for r in group] for label, group in records.items()} == {
        "fedavg": [0, 1],
        "fedaom": [0, 1],
    }
    assert work(tmp_path, request(tmp_path / "a"), again) == records and not again.begun
    assert not list((tmp_path / "work").iterdir()), "checkpoints of finished runs are removed"


def test_stopped_and_started_again_it_goes_on_with_the_same_bytes(tmp_path):
    work(tmp_path, request(tmp_path / "whole" / "a"), Watch())
    with pytest.raises(KeyboardInterrupt):
        work(tmp_path, request(tmp_path / "cut" / "a"), Watch(stop_after=5))
    watch = Watch()
    work(tmp_path, request(tmp_path / "cut" / "a"), watch)
    assert watch.begun[0] == ("fedaom", 0), "the first run was done"
    assert watch.rounds[0] > 1, "the second goes on from its checkpoint"
    assert files(tmp_path / "cut" / "a") == files(tmp_path / "whole" / "a")


def test_a_changed_plan_is_run_anew_and_replaces_the_old(tmp_path):
    work(tmp_path, request(tmp_path / "a", seeds=(0,)), Watch())
    watch = Watch()
    longer = Overrides(**{**SMALL.__dict__, "rounds": 4})
    records = work(tmp_path, request(tmp_path / "a", seeds=(0,), overrides=longer), watch)
    assert len(watch.begun) == 2 and watch.rounds == [1, 2, 3, 4] * 2
    assert [len(group[0].rounds) for group in records.values()] == [4, 4]


def test_report_only_runs_nothing(tmp_path):
    watch = Watch()
    work(tmp_path, request(tmp_path / "a", seeds=(0,), strategies=("fedavg",)), watch)
    records = work(tmp_path, request(tmp_path / "a", report_only=True), watch)
    assert list(records) == ["fedavg"] and len(watch.begun) == 1


def test_training_that_diverges_ends_its_run_and_no_other(tmp_path, monkeypatch):
    perform = run.perform

    def diverging(task):
        if task.round == 2 and getattr(task, "terms", None) and task.terms.strategy.name == "fedavg":
            raise DivergedTraining("client 1 diverged in round 2")
        return perform(task)

    monkeypatch.setattr(run, "perform", diverging)
    records = work(tmp_path, request(tmp_path / "a", seeds=(0,)), Watch())
    assert [len(records[label][0].rounds) for label in ("fedavg", "fedaom")] == [1, 3]
    assert not request(tmp_path / "a", seeds=(0,)).pending(RunStore(tmp_path / "a")), "it would diverge again"


def test_a_model_is_the_one_that_the_record_names(tmp_path):
    asked = request(tmp_path / "a", seeds=(0,), strategies=("fedavg",))
    record = work(tmp_path, asked, Watch())["fedavg"][0]
    with Workshop(tmp_path / "work", None, lambda: open_executor("inline"), Watch()) as workshop:
        assert sha256(dump(workshop.model(record.plan))).hexdigest() == record.model_digest
