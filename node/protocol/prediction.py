"""Predictions of a federation's model, and what makes them: each method says how, by ``Method.predictor``."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame  # optional

OpenTask = Callable[[Path], AbstractContextManager[Any]]
"""Opens the process that shows a task's code one source of data, and ends it (``methods.training.task_data``)."""


@dataclass(frozen=True)
class ModelChoice:
    """Which of several models, where rounds leave more than one: a cluster's number from 1, or a member's index."""

    cluster: int | None = None
    client: int | None = None

    def __bool__(self) -> bool:
        return self.cluster is not None or self.client is not None


@dataclass(frozen=True)
class Predictions:
    """What a model says of samples.

    Attributes
    ----------
    name : str
        What is predicted, as the target's column.
    classes : tuple of str
        Names of the classes whose probabilities are the columns of ``values``; empty where these are numbers.
    values : float array of shape (n, columns)
        Probabilities, or numbers in the target's unit.
    rows : int array of shape (n,)
        Which row of the source each is of, counted from 1.
    names : tuple of str
        What people call each sample, as the name of a file; empty where they have no names.
    numbers : tuple of str
        Names of the columns of numbers; empty for the one that has the name of what is predicted.
    truth : array or None
        Where it was read: places of the true classes (n,), or true numbers (n, columns).
    """

    name: str
    classes: tuple[str, ...]
    values: np.ndarray
    rows: np.ndarray
    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    truth: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def labels(self) -> list[str]:
        """The most probable class of each sample, the first of those where there are several; none of numbers."""
        return [self.classes[place] for place in self.values.argmax(1)] if self.classes else []

    @property
    def columns(self) -> list[str]:
        """Headings of ``table``.

        ``row``, the ``file`` of samples with names, what is predicted, ``probability of CLASS`` for each class, and
        ``actual`` where it is known.
        """
        probabilities = [f"probability of {name}" for name in self.classes]
        own = [self.name, *probabilities] if self.classes else list(self.numbers or [self.name])
        actual = [f"actual {name}" for name in self.numbers] or ["actual"]
        return ["row", *(["file"] if self.names else []), *own, *(actual if self.truth is not None else [])]

    def table(self) -> Iterator[list[Any]]:
        """A row for each sample, under ``columns``."""
        labels = self.labels
        for index, values in enumerate(self.values.tolist()):
            named = [self.names[index]] if self.names else []
            own = [labels[index], *values] if labels else values
            yield [int(self.rows[index]), *named, *own, *self._actual(index)]

    def frame(self) -> "DataFrame":
        """``table`` as a pandas frame; ImportError where pandas is not installed."""
        import pandas

        return pandas.DataFrame(list(self.table()), columns=self.columns)

    def _actual(self, index: int) -> list[Any]:
        if self.truth is None:
            return []
        return [self.classes[self.truth[index]]] if self.classes else self.truth[index].tolist()


class Predictor(Protocol):
    """Predicts by one model."""

    def predict(self, source: Path, labelled: bool = False) -> Predictions:
        """Predictions for what a source holds, with what is true where it is ``labelled``.

        Raises
        ------
        ValueError, CannotTakePart
            The source is not what the federation's terms ask for; the message says what would be.
        """
        ...
