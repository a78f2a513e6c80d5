"""Figures of predictions are scikit-learn's."""

import numpy as np
import pytest
from sklearn import metrics

from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import canonical_json
from fedgrove.node.learning.scores import StatedScores, class_scores, number_scores


def _drawn(classes: int, samples: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that say something about the labels, with ties among them, and the labels."""
    generator = np.random.default_rng(classes)
    labels = generator.integers(0, classes, samples)
    logits = generator.normal(size=(samples, classes)) + 1.2 * np.eye(classes)[labels]
    values = np.round(np.exp(logits), 1) + 0.1
    return values / values.sum(1, keepdims=True), labels


@pytest.mark.parametrize("classes", [2, 5])
def test_figures_of_classes_are_those_of_scikit_learn(classes):
    values, labels = _drawn(classes)
    found = class_scores(values, labels, [f"c{place}" for place in range(classes)])
    given = {"y_score": values[:, 1]} if classes == 2 else {"y_score": values, "multi_class": "ovr"}
    assert found.auc == pytest.approx(metrics.roc_auc_score(labels, **given), abs=1e-12)
    predicted = values.argmax(1)
    assert found.confusion.matrix.tolist() == metrics.confusion_matrix(labels, predicted).tolist()
    assert found.confusion.accuracy == pytest.approx(metrics.accuracy_score(labels, predicted))
    assert found.confusion.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(labels, predicted))
    assert found.log_loss == pytest.approx(metrics.log_loss(labels, values))
    if classes == 2:
        assert found.brier == pytest.approx(2 * metrics.brier_score_loss(labels, values[:, 1]))


def test_calibration_sorts_every_sample_into_one_bin():
    values, labels = _drawn(3)
    found = class_scores(values, labels, "abc")
    assert sum(each.count for each in found.calibration) == len(labels)
    assert all(each.low < each.stated <= each.high + 1e-12 for each in found.calibration)
    right = sum(each.count * each.right for each in found.calibration) / len(labels)
    assert right == pytest.approx(found.confusion.accuracy)
    assert 0 < found.calibration_error < 1


def test_a_class_without_samples_has_no_auc_and_a_single_answer_is_noticed():
    values = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    found = class_scores(values, np.array([0, 0, 0]), ["no", "yes"])
    assert found.auc is None and found.roc == () and found.confusion.balanced_accuracy == 1
    assert found.confusion.only_class is None  # nothing else is there to be predicted
    assert class_scores(values, np.array([0, 1, 0]), ["no", "yes"]).confusion.only_class == 0


def test_figures_of_numbers_are_those_of_scikit_learn():
    generator = np.random.default_rng(1)
    truth = generator.normal(50, 10, 300)
    predicted = truth + generator.normal(0, 4, 300)
    found = number_scores(predicted, truth)
    assert found.r2 == pytest.approx(metrics.r2_score(truth, predicted))
    assert found.mae == pytest.approx(metrics.mean_absolute_error(truth, predicted))
    assert found.rmse == pytest.approx(metrics.root_mean_squared_error(truth, predicted))
    assert number_scores(predicted, np.full(300, 7.0)).r2 is None


def read(data: bytes, samples: int) -> StatedScores:
    found = StatedScores.from_bytes(data)
    found.check_samples(samples)
    return found


def test_what_is_stated_of_scores_is_read_back():
    values, labels = _drawn(3)
    stated = class_scores(values, labels, "abc").statement()
    assert read(stated.to_bytes(), len(labels)) == stated
    assert stated.to_table().keys() >= {"auc", "balanced_accuracy", "confusion"}
    numbers = number_scores(np.arange(5), np.arange(5) + 1).statement()
    assert read(numbers.to_bytes(), 5).to_table() == {"r2": 0.5, "mae": 1.0, "rmse": 1.0}


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {"auc": 1.5},
        {"auc": float("nan")},
        {"auc": 1},
        {"colour": 0.5},
        {"rmse": -1.0},
        {"confusion": [[3, 0], [0]]},
        {"confusion": [[4, 0], [0, -1]]},
        {"confusion": [[0.5, 0.5], [1, 1]]},
        {"confusion": [[4, 0], [0, 0]]},
        {"confusion": [[3]]},
        {"confusion": []},
    ],
    ids=str,
)
def test_nothing_is_read_that_cannot_be(wrong):
    with pytest.raises(InvalidContent, match=r"canonical|Expected|matrix|unknown|number"):
        read(canonical_json(wrong), 3)
