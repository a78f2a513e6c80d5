"""The arms are plans as the experiments' table asks for them."""

import json
from dataclasses import replace

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.server_steps import MomentumStep
from fedgrove_lab.experiments import accuracy_table
from fedgrove_lab.experiments.base import Overrides, choose
from fedgrove_lab.experiments.laboratory import settle
from fedgrove_lab.experiments.measures import circumstances
from fedgrove_lab.experiments.regimes import METHODS
from fedgrove_lab.experiments.registry import EXPERIMENTS
from fedgrove_lab.experiments.trials import CIFAR10_TRIALS, MNIST_TRIALS, SWEEP

TRIALS = (SWEEP, MNIST_TRIALS, CIFAR10_TRIALS)
ROUNDS_TO_90 = EXPERIMENTS["rounds_to_90"]


@pytest.fixture
def results(tmp_path):
    """A folder of results with the summaries of all trials."""
    for trials in TRIALS:
        write_trials(tmp_path, trials, {name: next(iter(trials.of_method(name))) for name in trials.methods})
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
    plans = ROUNDS_TO_90.arms(results)
    assert set(plans) == {*METHODS, "share"}
    for plan in plans.values():
        assert (plan.cast.dataset, plan.clients, plan.drawn, plan.partition.alpha) == ("mnist", 100, 5, 0.1)
        training = plan.training
        assert (training.epochs, training.batch_size, training.learning_rate) == (1, 50, 0.01)
        assert (training.learning_rate_decay, training.momentum, training.weight_decay) == (0.998, 0.5, 1e-4)
    assert len({plan.rounds for plan in plans.values()}) == 1


def test_a_plan_says_every_option_it_is_run_with(results):
    settled = settle(ROUNDS_TO_90.arms(results)["fedaom"], Overrides())
    assert {"beta", "epsilon", "q"} <= set(settled.strategy.options)


@pytest.mark.parametrize(
    ("trials", "count", "validation"),
    list(zip(TRIALS, (8, 4, 4), (0, 0.1, 0.1), strict=True)),
    ids=lambda each: str(each)[:20],
)
def test_every_method_has_the_same_number_of_trials(trials, count, validation, results):
    arms = trials.arms(results)
    assert {len(trials.of_method(name)) for name in trials.methods} == {count}
    assert len({plan.digest() for plan in arms.values()}) == len(arms) == count * len(trials.methods)
    assert {(plan.cast.dataset, plan.cast.validation) for plan in arms.values()} == {(trials.dataset, validation)}
    assert SWEEP.methods == (*METHODS, "share")


def test_the_table_has_forty_cells(results):
    arms = accuracy_table.arms(results)
    assert len(arms) == len({plan.digest() for plan in arms.values()}) == 2 * 4 * 5


def test_tuned_arms_take_their_settings_from_the_sweep(results):
    plans, last = EXPERIMENTS["rounds_to_90_tuned"].arms, list(SWEEP.of_method("moon"))[-1]
    write_trials(results, SWEEP, {"moon": last})
    assert plans(results) == {"moon": SWEEP.arms(results)[last]}


def test_arms_are_chosen_by_strategy_and_by_label(results):
    arms = ROUNDS_TO_90.arms(results)
    assert list(choose(ROUNDS_TO_90, arms)) == ["fedavg", "fedaom"]
    assert list(choose(ROUNDS_TO_90, arms, ["moon", "share"])) == ["moon", "share"]
    table = accuracy_table.arms(results)
    chosen = choose(accuracy_table.EXPERIMENT, table, ["moon"], ["mnist-*"])
    assert all(label.startswith("mnist-") and label.endswith("-moon") for label in chosen) and len(chosen) == 4
    for strategies, only in ((["adam"], []), ([], ["nothing-*"])):
        with pytest.raises(InvalidInput, match="has no arm"):
            choose(ROUNDS_TO_90, arms, strategies, only)


def test_the_comparison_runs_the_best_trials_on_test_samples_of_the_same_circumstances(results):
    best = {"fedaom_eq7": "fedaom_eq7-lr0.03-shared_batch30", "fedavgm": "fedavgm-lr0.1-momentum0.9"}
    write_trials(results, MNIST_TRIALS, best)
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
    write_trials(results, CIFAR10_TRIALS, {"moon": "moon-lr0.01-mu1"})
    arms = EXPERIMENTS["comparison_cifar10"].arms(results)
    assert set(arms) == {"dirichlet0.1-moon", "shards2-moon"}
    for plan in arms.values():
        assert (plan.cast.dataset, plan.training.learning_rate, plan.strategy.options["mu"]) == ("cifar10", 0.01, 1)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there are no trials"),
        *(
            (text, "has no best settings")
            for text in ("{}", '{"results": {"best": [1]}}', '{"results": {"best": {"moon": {}}}}')
        ),
    ],
)
@pytest.mark.parametrize(("name", "trials"), [("comparison", MNIST_TRIALS), ("rounds_to_90_tuned", SWEEP)])
def test_a_comparison_without_trials_says_what_to_run(tmp_path, name, trials, content, says):
    if content is not None:
        (tmp_path / trials.name).mkdir()
        (tmp_path / trials.name / "summary.json").write_text(content)
    with pytest.raises(InvalidInput, match=says):
        EXPERIMENTS[name].arms(tmp_path)
