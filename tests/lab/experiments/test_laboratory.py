"""Each run is made once, goes on where it was stopped, and is in the store as soon as it has ended."""

from dataclasses import replace
from hashlib import sha256

import pytest

from fedgrove.node.base.tensors import dump
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.scenario.clusters import SimulatedProCfl
from fedgrove.node.scenario.poisoning import AttackSettings
from fedgrove.node.simulation import workers as workforce
from fedgrove.node.simulation.executors import open_executor
from fedgrove_lab.experiments.base import Overrides
from fedgrove_lab.experiments.curves import ROUNDS_TO_90
from fedgrove_lab.experiments.laboratory import ExperimentRequest, Workshop, before_attack, conduct
from fedgrove_lab.experiments.store import RunStore
from tests.node.simulation.clustered.conftest import grouped_plan, simulate

SMALL = Overrides(rounds=3, clients=4, sampled=0.5, dataset="digits", train_samples=200, test_samples=40)


class Watch:
    """Writes down what it is told, and stops the work when it is asked to."""

    def __init__(self, stop_after: int = 0) -> None:
        self.begun, self.rounds = [], []
        self._stop_after = stop_after

    def begin(self, label, rounds):
        self.begun.append(label)

    def advance(self, result):
        self.rounds.append(result.round)
        if len(self.rounds) == self._stop_after:
            raise KeyboardInterrupt


def request(out, **changes) -> ExperimentRequest:
    return ExperimentRequest(ROUNDS_TO_90, out, **{"seeds": (0, 1), "overrides": SMALL, **changes})


def work(tmp_path, asked: ExperimentRequest, watch: Watch) -> dict:
    store = RunStore(asked.out)
    with Workshop(tmp_path / "work", None, lambda: open_executor("inline"), watch) as workshop:
        conduct(asked.pending(store), store, workshop, keep_models=False)
        return asked.findings(store, workshop).records


def files(out) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "runs").iterdir()}


def test_arms_run_seed_by_seed_and_only_once(tmp_path):
    watch, again = Watch(), Watch()
    records = work(tmp_path, request(tmp_path / "a"), watch)
    assert watch.begun == [f"{arm}, seed {seed}" for seed in (0, 1) for arm in ("fedavg", "fedaom")]
    assert {label: [r.scenario.seed for r in group] for label, group in records.items()} == {
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
    assert watch.begun[0] == "fedaom, seed 0", "the first run was done"
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
    perform = workforce.perform

    def diverging(task):
        if task.round == 2 and getattr(task, "terms", None) and task.terms.strategy.name == "fedavg":
            raise DivergedTraining("client 1 diverged in round 2")
        return perform(task)

    monkeypatch.setattr(workforce, "perform", diverging)
    records = work(tmp_path, request(tmp_path / "a", seeds=(0,)), Watch())
    assert [len(records[label][0].rounds) for label in ("fedavg", "fedaom")] == [1, 3]
    assert not request(tmp_path / "a", seeds=(0,)).pending(RunStore(tmp_path / "a")), "it would diverge again"


def test_a_model_is_the_one_that_the_record_names(tmp_path):
    asked = request(tmp_path / "a", seeds=(0,), strategies=("fedavg",))
    record = work(tmp_path, asked, Watch())["fedavg"][0]
    with Workshop(tmp_path / "work", None, lambda: open_executor("inline"), Watch()) as workshop:
        assert sha256(dump(workshop.model(record.scenario))).hexdigest() == record.model_digest


GUARDED = SimulatedProCfl(alpha=0.5, seats=3, tolerance=0.0, pause=1)
ATTACKS = [AttackSettings(kind, 0.3, "concentrated", start=3) for kind in ("sign-flip", "label-flip")]
ATTACKED = [
    grouped_plan(rounds=5, evaluate_every=5, method=GUARDED, attack=attack, strategy="moon") for attack in ATTACKS
]


def conducted(tmp_path, plans, watch: Watch) -> dict[str, bytes]:
    store = RunStore(tmp_path / "out" / "a")
    with Workshop(tmp_path / "work", None, lambda: open_executor("inline"), watch) as workshop:
        todo = [(plan.attack.kind, plan) for plan in plans if store.find(plan.attack.kind, plan) is None]
        conduct(todo, store, workshop, keep_models=False)
    return files(tmp_path / "out" / "a")


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[str, bytes]:
    """What each attacked plan gives, trained from its first round."""
    with Workshop(tmp_path_factory.mktemp("alone"), None, lambda: open_executor("inline"), Watch()) as workshop:
        digits = workshop.dataset("digits")
    return {f"{plan.attack.kind}-seed3.json": simulate(plan, digits).record.to_bytes() for plan in ATTACKED}


def test_rounds_before_an_attack_are_trained_once_and_leave_the_same_bytes(alone, tmp_path):
    """MOON keeps something of each client, and the watch has its references before the attack already."""
    watch = Watch()
    found = conducted(tmp_path, ATTACKED, watch)
    assert watch.rounds == [1, 2, 3, 4, 5, 3, 4, 5]
    assert not list((tmp_path / "work").iterdir()), "the common rounds are removed too"
    assert found == alone


@pytest.mark.parametrize("rounds", [1, 2, 6])
def test_stopped_before_or_after_the_attack_it_goes_on_to_the_same_bytes(rounds, alone, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        conducted(tmp_path, ATTACKED, Watch(stop_after=rounds))
    watch = Watch()
    found = conducted(tmp_path, ATTACKED, watch)
    assert len(watch.rounds) == 8 - rounds
    assert found == alone


def test_rounds_that_show_who_attacks_later_are_not_shared():
    (plan, _) = ATTACKED
    assert before_attack(plan) == replace(plan, attack=None)
    assert before_attack(plan.changed(run={"evaluate_every": 2})) is None, "an evaluation is of the honest clients"
    assert before_attack(replace(plan, attack=replace(plan.attack, start=1))) is None
    assert before_attack(plan.changed(federation={"rounds": 5}, attack=replace(plan.attack, start=6))) is None
    assert before_attack(replace(plan, attack=None)) is None
