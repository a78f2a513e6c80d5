"""Members' confusion matrix: counts of classes summed exactly under masks, void where they cannot be."""

import numpy as np
import pytest
from sklearn import metrics

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.local_update import HeldOutSums
from fedgrove.node.learning.settings import EvaluationSettings, confusion_names
from fedgrove.node.methods.terms import config_of
from fedgrove.node.methods.training.metric_sums import metric_names, sum_of, sums_of, words_behind
from fedgrove.node.protocol.members_metrics import MembersMetrics
from fedgrove.node.protocol.metric_words import MetricSums, to_words

MODEL = {"model": {"name": "small-mlp", "input_shape": [1, 2, 2], "classes": 3}}
TABLE = {"age": {"kind": "number", "range": [0, 9]}}
SQUARED = {"target": "y", "kind": "regression", "target_range": [0, 1], "columns": TABLE}
REGRESSION = {"task": {"name": "tabular", "options": SQUARED}}
FEDAVG = {"strategy": {"name": "fedavg"}}


def terms(**changes):
    tables = {"evaluation": {"metrics": ["right", "confusion"]}, **MODEL, **FEDAVG, **changes}
    return config_of(tables)[0]


def _member(seed: int, classes: int = 3) -> tuple[HeldOutSums, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    truth, predicted = generator.integers(0, classes, (2, 20))
    matrix = metrics.confusion_matrix(truth, predicted, labels=range(classes))
    totals = dict(zip(confusion_names(classes), map(float, matrix.ravel()), strict=True))
    totals |= {"right": float((truth == predicted).sum()), "loss": 11.0, "squared_loss": 9.0}
    return HeldOutSums(20, totals), truth, predicted


def _sums(found: HeldOutSums, config) -> MetricSums:
    return sums_of(found, config.evaluation, len(config.classes))


def test_the_sum_of_members_words_is_the_matrix_of_all_their_samples():
    config = terms()
    assert words_behind(config) == 1 + 1 + 9 + 2 * 3 + 1
    members = [_member(seed) for seed in range(4)]
    names = metric_names(config)
    words = np.sum([to_words(_sums(found, config), names) for found, _, _ in members], 0, dtype=np.uint32)
    stated = sum_of(config, words, 4)
    truth, predicted = (np.concatenate([member[place] for member in members]) for place in (1, 2))
    assert stated.confusion is not None
    assert stated.confusion.matrix.tolist() == metrics.confusion_matrix(truth, predicted).tolist()
    figures = stated.to_figures()
    assert figures["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(truth, predicted))
    assert figures["accuracy"] == pytest.approx(metrics.accuracy_score(truth, predicted))
    assert figures["confusion"] == stated.confusion.matrix.tolist()
    assert MembersMetrics.from_bytes(stated.to_bytes()) == stated


def test_the_accuracy_follows_from_the_matrix_alone():
    config = terms(evaluation={"metrics": ["confusion"]})
    found, truth, predicted = _member(1)
    names = metric_names(config)
    stated = sum_of(config, to_words(_sums(found, config), names), 1)
    assert stated.accuracy == metrics.accuracy_score(truth, predicted)


def test_a_matrix_of_other_samples_makes_the_metrics_void():
    config = terms()
    found, _, _ = _member(1)
    wrong = HeldOutSums(20, dict(found.totals) | {"confusion/0/1": found.totals["confusion/0/1"] + 1})
    names = metric_names(config)
    stated = sum_of(config, to_words(_sums(wrong, config), names), 1)
    assert stated.void == "the members' words count 21 samples in the confusion matrix, and 20 in all"


def test_a_task_of_ones_own_may_have_a_metric_of_that_name():
    bundle = {"task": {"bundle": "bafybei" + "a" * 52}}
    config = config_of({"evaluation": {"metrics": ["confusion"]}, **bundle, **FEDAVG})[0]
    assert metric_names(config) == ("confusion", "loss", "squared_loss") and config.evaluation == EvaluationSettings(
        metrics=("confusion",)
    )


@pytest.mark.parametrize(
    "tables",
    [
        {"model": {"name": "small-mlp", "input_shape": [1, 2, 2], "classes": 33}},
        {"model": None, **REGRESSION},
        {"privacy": {"mechanism": "client", "epsilon": 8.0, "delta": 1e-5, "noise_multipliers": [1.0], "clip": 1.0}},
    ],
)
def test_it_is_for_few_classes_and_for_exact_sums(tables):
    given = {"evaluation": {"metrics": ["confusion"]}, **MODEL, **FEDAVG, **tables}
    given = {name: table for name, table in given.items() if table is not None}
    if "privacy" in given:
        given |= {"ledger": {"quorum": 300}, "masking": {"masked": "delta"}}
    with pytest.raises(InvalidConfig, match=r"evaluation\.metrics must be without confusion"):
        config_of(given)
