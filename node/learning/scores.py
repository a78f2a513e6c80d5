"""How good predictions are: figures of classification and of regression, from plain arrays; no torch here.

The figures are those of scikit-learn, by the same definitions; the tests compare them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import Count, Table
from fedgrove.node.learning.settings import MAX_CONFUSED

BINS = 10
"""Of equal width, in a table of calibration."""


@dataclass(frozen=True)
class CalibrationBin:
    """Samples whose probability of the predicted class lies in (``low``, ``high``].

    Attributes
    ----------
    count : int
        How many.
    stated, right : float
        Their mean probability, and the share of them whose predicted class is right.
    """

    low: float
    high: float
    count: int
    stated: float
    right: float


@dataclass(frozen=True)
class ConfusionFigures:
    """What follows from a confusion matrix alone.

    Attributes
    ----------
    matrix : int array of shape (classes, classes)
        Rows are what is true, columns what was predicted.
    """

    matrix: np.ndarray

    @property
    def samples(self) -> int:
        return int(self.matrix.sum())

    @property
    def accuracy(self) -> float | None:
        """Share of right answers; None without samples."""
        return float(np.trace(self.matrix)) / self.samples if self.samples else None

    @property
    def recalls(self) -> list[float | None]:
        """For each class the share of its samples that are predicted as it; None where there are none."""
        return [float(row[place] / row.sum()) if row.sum() else None for place, row in enumerate(self.matrix)]

    @property
    def balanced_accuracy(self) -> float | None:
        """The mean recall over the classes that there are samples of; None without samples."""
        known = [recall for recall in self.recalls if recall is not None]
        return float(np.mean(known)) if known else None

    @property
    def only_class(self) -> int | None:
        """The one class that is predicted for all samples, where there are others among them; else None."""
        predicted, true = np.flatnonzero(self.matrix.sum(0)), np.flatnonzero(self.matrix.sum(1))
        return int(predicted[0]) if len(predicted) == 1 and len(true) > 1 else None


@dataclass(frozen=True)
class ClassScores:
    """How good probabilities of classes are.

    Attributes
    ----------
    classes : tuple of str
        Their names, in the order of rows and columns.
    confusion : ConfusionFigures
        The predicted class is the most probable one, the first of those where there are several.
    auc : float or None
        Area under the receiver operating characteristic: of two classes, that of the second; of more, the mean over
        each class against the rest. None where a class has no samples.
    brier : float
        Mean over the samples of the squared distance between the probabilities and what is true, summed over the
        classes; from 0 to 2.
    log_loss : float
        Mean of −ln of the true class's probability, which counts as at least 2⁻⁵².
    calibration_error : float
        Expected calibration error: mean distance between stated and right in ``calibration``, weighted by samples.
    calibration : tuple of CalibrationBin
        Without the empty ones.
    roc : tuple of arrays, by class
        False and true positive rates, to draw; empty where ``auc`` is None.
    """

    classes: tuple[str, ...]
    confusion: ConfusionFigures
    auc: float | None
    brier: float
    log_loss: float
    calibration_error: float
    calibration: tuple[CalibrationBin, ...]
    roc: tuple[tuple[np.ndarray, np.ndarray], ...] = field(default=(), repr=False)

    def statement(self) -> "StatedScores":
        return StatedScores(
            auc=self.auc,
            balanced_accuracy=self.confusion.balanced_accuracy,
            brier=self.brier,
            calibration_error=self.calibration_error,
            confusion=self.confusion.matrix.tolist(),
        )

    def to_figures(self) -> dict[str, Any]:
        return {
            "samples": self.confusion.samples,
            "accuracy": self.confusion.accuracy,
            "balanced_accuracy": self.confusion.balanced_accuracy,
            "auc": self.auc,
            "brier": self.brier,
            "log_loss": self.log_loss,
            "calibration_error": self.calibration_error,
            "classes": list(self.classes),
            "confusion": self.confusion.matrix.tolist(),
            "calibration": [vars(each) for each in self.calibration],
        }


@dataclass(frozen=True)
class NumberScores:
    """How good predicted numbers are, in the target's unit.

    Attributes
    ----------
    samples : int
    r2 : float or None
        Share of the target's variance that is explained; None where all targets are equal.
    mae, rmse : float
        Mean absolute error, and the root of the mean squared one.
    """

    samples: int
    r2: float | None
    mae: float
    rmse: float

    def statement(self) -> "StatedScores":
        return StatedScores(r2=self.r2, mae=self.mae, rmse=self.rmse)

    def to_figures(self) -> dict[str, Any]:
        return dict(vars(self))


Scores = ClassScores | NumberScores


_Share = Annotated[float, Meta(ge=0, le=1)]
_Distance = Annotated[float, Meta(ge=0)]
_Row = Annotated[list[Count], Meta(max_length=MAX_CONFUSED)]


class StatedScores(Table, frozen=True):
    """Figures that somebody states of an evaluation, as of ``ClassScores`` or ``NumberScores``; None where unknown."""

    auc: _Share | None = None
    balanced_accuracy: _Share | None = None
    brier: Annotated[float, Meta(ge=0, le=2)] | None = None
    calibration_error: _Share | None = None
    confusion: Annotated[list[_Row], Meta(min_length=2, max_length=MAX_CONFUSED)] | None = None
    r2: Annotated[float, Meta(le=1)] | None = None
    mae: _Distance | None = None
    rmse: _Distance | None = None

    def __post_init__(self) -> None:
        if any(len(row) != len(self.confusion or ()) for row in self.confusion or ()):
            raise InvalidContent("its confusion matrix is not square")

    def check_samples(self, samples: int) -> None:
        """Raise InvalidContent if a confusion matrix counts another number of samples."""
        if self.confusion is not None and sum(map(sum, self.confusion)) != samples:
            raise InvalidContent("its confusion matrix is not one of these samples")


def class_scores(probabilities: np.ndarray, labels: np.ndarray, classes: Sequence[str]) -> ClassScores:
    """Score probabilities (n, classes) by the true classes' places (n,); n is at least 1."""
    places, count = np.asarray(labels, np.int64), len(classes)
    values = np.asarray(probabilities, np.float64)
    predicted = values.argmax(1)
    matrix = np.bincount(places * count + predicted, minlength=count * count).reshape(count, count)
    distances = values.copy()
    distances[np.arange(len(places)), places] -= 1
    bins = tuple(_calibration(values.max(1), predicted == places))
    error = sum(each.count * abs(each.stated - each.right) for each in bins) / len(places)
    curves = _curves(values, places, count)
    areas = [min(1.0, float(np.trapezoid(true, false))) for false, true in curves]
    return ClassScores(
        tuple(classes),
        ConfusionFigures(matrix),
        float(np.mean(areas[-1:] if count == 2 else areas)) if areas else None,
        min(2.0, float(np.square(distances).sum(1).mean())),
        float(-np.log(np.maximum(values[np.arange(len(places)), places], np.finfo(np.float64).eps)).mean()),
        min(1.0, float(error)),
        bins,
        tuple(curves),
    )


def number_scores(predicted: np.ndarray, targets: np.ndarray) -> NumberScores:
    """Score predicted numbers by the true ones, both of shape (n,) or (n, values); n is at least 1."""
    own, true = (np.asarray(each, np.float64).reshape(len(predicted), -1) for each in (predicted, targets))
    errors = own - true
    spread = float(np.square(true - true.mean(0)).sum())
    r2 = 1 - float(np.square(errors).sum()) / spread if spread > 0 else None
    return NumberScores(len(true), r2, float(np.abs(errors).mean()), float(np.sqrt(np.square(errors).mean())))


def _calibration(stated: np.ndarray, right: np.ndarray) -> list[CalibrationBin]:
    edges = np.linspace(0, 1, BINS + 1)
    places = np.clip(np.searchsorted(edges, stated, side="left") - 1, 0, BINS - 1)
    found = []
    for place in range(BINS):
        chosen = places == place
        if chosen.any():
            means = float(stated[chosen].mean()), float(right[chosen].mean())
            found.append(CalibrationBin(float(edges[place]), float(edges[place + 1]), int(chosen.sum()), *means))
    return found


def _curves(values: np.ndarray, places: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """False and true positive rates of each class against the rest; none where a class has no samples."""
    if len(np.unique(places)) < count:
        return []
    return [_curve(values[:, place], places == place) for place in range(count)]


def _curve(scores: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rates at every threshold, from none predicted to all; equal scores are one threshold."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    true = np.cumsum(positive[order])[ends]
    false = ends + 1 - true
    return np.append(0.0, false / false[-1]), np.append(0.0, true / true[-1])
