"""The arms are plans as the experiments' table asks for them."""

import json
from dataclasses import replace

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.server_steps import MomentumStep
from fedgrove_lab.experiments import (
    accuracy_table,
    comparison_trials,
    rounds_to_90,
    rounds_to_90_tuned,
    sweep,
)
from fedgrove_lab.experiments.base import Overrides, choose
from fedgrove_lab.experiments.laboratory import settle
from fedgrove_lab.experiments.measures import circumstances
from fedgrove_lab.experiments.regimes import METHODS
from fedgrove_lab.experiments.registry import EXPERIMENTS

TRIALS = (comparison_trials.MNIST_TRIALS, comparison_trials.CIFAR10_TRIALS)


@pytest.fixture
def results(tmp_path):
    """A folder of results with the summaries of a sweep and of trials."""
    (tmp_path / "sweep").mkdir()
    plans = {plan.strategy.name: plan for plan in sweep.arms(tmp_path).values()}
    best = {
        name: {"training": p.to_json()["training"], "options": dict(p.strategy.options)} for name, p in plans.items()
    }
    (tmp_path / "sweep" / "summary.json").write_text(json.dumps({"results": {"best": best}}))
    for trials in TRIALS:
        methods = comparison_trials.METHODS.items()
        write_trials(tmp_path, trials, {name: f"{name}-{next(iter(trials.of_method(each)))}" for name, each in methods})
    return tmp_path


def write_trials(results, trials, best):
    (results / trials.name).mkdir(exist_ok=True)
    (results / trials.name / "summary.json").write_text(json.dumps({"results": {"best": best}}))


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_every_arm_can_be_run_at_any_scale(experiment, results):
    small = Overrides(rounds=2, clients=10, sampled=0.9, dataset="digits", epochs=2, test_samples=50)
    for label, plan in experiment.arms(results).items():
        assert "/" not in label and " " not in label
        settled = settle(plan, small)
        assert (settled.rounds, settled.clients, settled.cast.dataset) == (2, 10, "digits")
        assert settled.training == replace(plan.training, epochs=2)
        assert settle(settled, Overrides()) == settled


def test_the_paper_like_regime_is_the_specified_one(results):
    plans = rounds_to_90.arms(results)
    assert set(plans) == {*METHODS, "share"}
    for plan in plans.values():
        assert (plan.cast.dataset, plan.clients, plan.drawn, plan.partition.alpha) == ("mnist", 100, 5, 0.1)
        training = plan.training
        assert (training.epochs, training.batch_size, training.learning_rate) == (1, 50, 0.01)
        assert (training.learning_rate_decay, training.momentum, training.weight_decay) == (0.998, 0.5, 1e-4)
    assert len({plan.rounds for plan in plans.values()}) == 1


def test_a_plan_says_every_option_it_is_run_with(results):
    settled = settle(rounds_to_90.arms(results)["fedaom"], Overrides())
    assert {"beta", "epsilon", "q"} <= set(settled.strategy.options)


def test_every_method_has_the_same_number_of_trials(results):
    methods = {plan.strategy.name for plan in sweep.arms(results).values()}
    assert methods == {*METHODS, "share"} and {len(sweep.trials(method)) for method in methods} == {8}
    assert len({plan.digest() for plan in sweep.arms(results).values()}) == 8 * len(methods)


def test_the_table_has_forty_cells(results):
    arms = accuracy_table.arms(results)
    assert len(arms) == len({plan.digest() for plan in arms.values()}) == 2 * 4 * 5


def test_tuned_arms_take_their_settings_from_the_sweep(results, tmp_path_factory):
    plans = rounds_to_90_tuned.arms(results)
    last = list(sweep.trials("moon").values())[-1]
    assert plans["moon"].training == last.training and plans["moon"].strategy == last.strategy
    with pytest.raises(InvalidInput, match="there is no sweep"):
        rounds_to_90_tuned.arms(tmp_path_factory.mktemp("empty"))
    (results / "sweep" / "summary.json").write_text('{"results": {"best": [1]}}')
    with pytest.raises(InvalidInput, match="no summary of a sweep"):
        rounds_to_90_tuned.arms(results)
    (results / "sweep" / "summary.json").write_text('{"results": {"best": {"moon": {}}}}')
    with pytest.raises(InvalidInput, match="run it again"):
        rounds_to_90_tuned.arms(results)


def test_arms_are_chosen_by_strategy_and_by_label(results):
    arms = rounds_to_90.arms(results)
    assert list(choose(rounds_to_90.EXPERIMENT, arms)) == ["fedavg", "fedaom"]
    assert list(choose(rounds_to_90.EXPERIMENT, arms, ["moon", "share"])) == ["moon", "share"]
    table = accuracy_table.arms(results)
    chosen = choose(accuracy_table.EXPERIMENT, table, ["moon"], ["mnist-*"])
    assert all(label.startswith("mnist-") and label.endswith("-moon") for label in chosen) and len(chosen) == 4
    for strategies, only in ((["adam"], []), ([], ["nothing-*"])):
        with pytest.raises(InvalidInput, match="has no arm"):
            choose(rounds_to_90.EXPERIMENT, arms, strategies, only)


@pytest.mark.parametrize("trials", TRIALS, ids=["mnist", "cifar10"])
def test_every_method_of_the_comparison_has_four_trials_on_validation_samples(trials, results):
    arms = trials.arms(results)
    for method in comparison_trials.METHODS:
        assert len([label for label in arms if label.partition("-")[0] == method]) == 4
    assert len({plan.digest() for plan in arms.values()}) == len(arms)
    assert {(plan.cast.dataset, plan.cast.validation) for plan in arms.values()} == {(trials.dataset, 0.1)}


def test_the_comparison_runs_the_best_trials_on_test_samples_of_the_same_circumstances(results):
    best = {"fedaom_eq7": "fedaom_eq7-lr0.03-shared_batch30", "fedavgm": "fedavgm-lr0.1-momentum0.9"}
    write_trials(results, comparison_trials.MNIST_TRIALS, best)
    arms = EXPERIMENTS["comparison"].arms(results)
    assert set(arms) == {f"{cell}-{name}" for cell in ("dirichlet0.1", "shards2") for name in ("fedaom_eq7", "fedavgm")}
    literal = arms["shards2-fedaom_eq7"]
    assert (literal.strategy.name, literal.training.learning_rate, literal.strategy.options) == (
        "fedaom",
        0.03,
        {"refresh": 1, "shared_batch": 30},
    )
    assert arms["shards2-fedavgm"].server == MomentumStep(momentum=0.9)
    assert {plan.cast.validation for plan in arms.values()} == {0}
    assert len({circumstances(plan) for label, plan in arms.items() if label.startswith("shards2")}) == 1


def test_the_comparison_on_cifar10_takes_the_trials_on_cifar10(results):
    write_trials(results, comparison_trials.CIFAR10_TRIALS, {"moon": "moon-lr0.01-mu1"})
    arms = EXPERIMENTS["comparison_cifar10"].arms(results)
    assert set(arms) == {"dirichlet0.1-moon", "shards2-moon"}
    for plan in arms.values():
        assert (plan.cast.dataset, plan.training.learning_rate, plan.strategy.options["mu"]) == ("cifar10", 0.01, 1)


@pytest.mark.parametrize(("content", "says"), [(None, "there are no trials"), ("{}", "has no best settings")])
def test_a_comparison_without_trials_says_what_to_run(tmp_path, content, says):
    if content is not None:
        (tmp_path / "comparison_trials").mkdir()
        (tmp_path / "comparison_trials" / "summary.json").write_text(content)
    with pytest.raises(InvalidInput, match=says):
        EXPERIMENTS["comparison"].arms(tmp_path)
