"""Personalised accuracy and poisoning: what the reports say of records made by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedgrove.node.scenario.method import TrainingChoice
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.record import ClusterResult, CommitteeVerdict, RoundResult, RunRecord
from fedgrove_lab.experiments import personalised, poisoning
from fedgrove_lab.experiments.base import Findings, Overrides
from tests.lab.experiments.test_reports import Bench

PERSONALISED = personalised.arms(Path("results"))
POISONING = poisoning.arms(Path("results"))


def record_of(plan: Scenario, personal: float, *, seed: int = 0, judgements=(), attackers=()) -> RunRecord:
    last = ClusterResult(((1, 2), (3,), ()), personal, (), tuple(judgements), attackers)
    earlier = replace(last, judgements=())
    rounds = [RoundResult(n, 0.5, 1.0, 1.0, (1, 2, 3), 60, clustering=earlier) for n in range(1, plan.rounds + 1)]
    rounds[-1] = replace(rounds[-1], clustering=last)
    return RunRecord(plan.with_seed(seed), tuple(rounds), "00" * 32)


def test_methods_are_compared_seed_by_seed_where_they_were_run_alike():
    labels = {method: f"mnist-others0.2-{method}" for method in ("procfl", "ifca", "fedavg")}
    accuracy = {"procfl": (0.9, 0.8), "ifca": (0.7, 0.75), "fedavg": (0.6, 0.65)}
    records = {
        labels[method]: [record_of(PERSONALISED[labels[method]], value, seed=s) for s, value in enumerate(values)]
        for method, values in accuracy.items()
    }
    found = personalised.report(Findings(records, {}, Bench()))
    ahead = found.results["ahead"]["mnist-others0.2"]
    assert ahead["ifca"]["by_seed"] == pytest.approx([0.2, 0.05]) and ahead["fedavg"]["mean"] == pytest.approx(0.225)
    assert "| MNIST, 20% | ProCFL | 30 | 2 | 85.0 ± 7.1 | 50.0 ± 0.0 | 2, 2 |" in found.text
    assert "ProCFL is +12.5 points from IFCA (by seed: +20.0, +5.0)" in found.text
    few = "cifar10-others0.5-each100-procfl"
    assert "| CIFAR-10, 50%, 100 samples a client | ProCFL |" in (
        personalised.report(Findings({few: [record_of(PERSONALISED[few], 0.5)]}, {}, Bench())).text
    )
    other = PERSONALISED[labels["ifca"]].changed(cast={"train_samples": 100})
    unlike = {**records, labels["ifca"]: [record_of(other, 0.7)]}
    assert "ifca" not in personalised.report(Findings(unlike, {}, Bench())).results["ahead"]["mnist-others0.2"]


def test_the_arms_differ_in_method_and_skew_alone():
    plans = [
        plan.changed(method=TrainingChoice()) for label, plan in PERSONALISED.items() if label.startswith("mnist-")
    ]
    assert len(plans) == 16 and len({plan.digest() for plan in plans}) == 4


def test_who_is_found_and_who_is_wronged_is_counted_once():
    label = "mnist-label-flip-concentrated-0.1-guarded"
    plan = POISONING[label]
    judgements = [
        CommitteeVerdict(0, (1, 2, 3, 4), (5, 6, 7), (3, 3, 0, 0), (1, 2)),
        CommitteeVerdict(1, (3, 4), (5,), (0, 0), ()),
    ]
    records = {label: [record_of(plan, 0.8, judgements=judgements, attackers=(1, 3, 8, 9))]}
    bare = "mnist-label-flip-concentrated-0.1-multi-krum"
    records[bare] = [record_of(POISONING[bare], 0.4, attackers=(1, 3, 8, 9))]
    found = poisoning.report(Findings(records, {}, Bench()))
    assert "| MNIST, label-flip | concentrated | 10% | 1 | 25.0 | 0.0 | 2.2 | 8.0 |" in found.text
    assert "| MNIST, label-flip | concentrated | 10% | 80.0 | – | – | – | 40.0 | – | – |" in found.text
    assert found.results["arms"][label]["wronged"] == 1
    assert "when they bear the trigger" in found.text and "backdoor | concentrated" not in found.text


def test_a_backdoor_is_told_of_where_there_was_one():
    label = "mnist-backdoor-spread-0.2-krum"
    record = record_of(POISONING[label], 0.9)
    last = record.rounds[-1]
    reached = replace(last, clustering=replace(last.clustering, backdoor=0.25))
    records = {label: [replace(record, rounds=(*record.rounds[:-1], reached))]}
    found = poisoning.report(Findings(records, {}, Bench()))
    assert "| MNIST, backdoor | spread | 20% | – | – | – | 90.0 | – | – | – |" in found.text
    assert "| MNIST, backdoor | spread | 20% | – | – | – | 25.0 | – | – | – |" in found.text


def test_every_attack_is_tried_in_every_way():
    labels = [label for label in POISONING if label.startswith("mnist-") and label.endswith("-guarded")]
    assert len(labels) == 1 + 5 * 2 * 4
    assert {POISONING[label].attack is None for label in labels} == {True, False}


def test_an_attack_begins_at_the_same_share_of_the_rounds():
    plan = POISONING["mnist-scaled-spread-0.4-krum"]
    assert Overrides(rounds=10).apply(plan).attack.start == 6 and Overrides().apply(plan).attack.start == 13
