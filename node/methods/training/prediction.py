"""Predictions of a trained model: of a shipped network in this process, of a task by its own code in the sandbox."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from fedgrove.common.text import one_line
from fedgrove.node.base.tensors import Layout, Tensors
from fedgrove.node.learning.networks import probabilities
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.learning.userdata import images_in, part_in
from fedgrove.node.methods.training.task_data import TaskData, TaskFailed, said
from fedgrove.node.protocol.prediction import OpenTask, Predictions
from fedgrove.node.protocol.terms import FederationConfig

MAX_ROWS, MAX_VALUES, MAX_CLASSES = 1 << 24, 1 << 29, 10_000
_LONGEST = 200  # characters of a name that a task says


class NetworkPredictor:
    """Predicts by a shipped network; its classes are numbers."""

    def __init__(self, config: FederationConfig, tensors: Tensors) -> None:
        self._spec, self._tensors = config.network, tensors

    def predict(self, source: Path, labelled: bool = False) -> Predictions:
        """As ``Predictor`` says: of the array ``x`` of a file, or of ``x_test``, or else ``x_train``."""
        images = None if labelled else images_in(source, self._spec, MAX_VALUES)
        truth = None
        if images is None:
            samples = part_in(source, self._spec, MAX_VALUES)
            images, truth = samples.x, samples.y if labelled else None
        values = probabilities(self._spec, self._tensors, images)
        return Predictions("class", self._spec.class_names, values, np.arange(1, len(images) + 1), truth=truth)


class TaskPredictor:
    """Predicts by a task's own code, shipped or approved."""

    def __init__(
        self, config: FederationConfig, tensors: Tensors, open_task: OpenTask, form: TableFormat | None
    ) -> None:
        self._config, self._tensors, self._open, self._form = config, tensors, open_task, form

    def predict(self, source: Path, labelled: bool = False) -> Predictions:
        """As ``Predictor`` says; TaskFailed where the task's code cannot."""
        with self._open(source) as process, closing(_Forecast(self._config, process, form=self._form)) as task:
            return task.predictions(self._tensors, labelled)


class _Said(msgspec.Struct, frozen=True):
    count: Annotated[int, Meta(ge=1, le=MAX_ROWS)]
    width: Annotated[int, Meta(ge=1, le=MAX_VALUES)]
    classes: list[str]
    names: list[str]
    name: str


class _Forecast(TaskData):
    """A task on a source that is to be predicted for. Nothing that it says is believed before it is checked."""

    def predictions(self, tensors: Tensors, labelled: bool) -> Predictions:
        asked = {"labelled": labelled}
        forecast = said(_Said, self._run("forecast", asked, tensors))
        count, width = forecast.count, forecast.width
        classes, names = (tuple(map(_shown, each)) for each in (forecast.classes, forecast.names))
        if len(classes) not in (0, width) or len(names) not in (0, count):
            raise TaskFailed("the task does not name what it predicts")
        if count * width > MAX_VALUES:
            raise TaskFailed(f"there are more than {MAX_VALUES} predictions: give fewer samples at a time")
        if len(classes) > MAX_CLASSES or len(set(classes)) < len(classes):
            raise TaskFailed(f"the task's classes must be at most {MAX_CLASSES}, each with a name of its own")
        shapes = {"rows": (count,), "values": (count, width)}
        if labelled:
            shapes["truth"] = (count, 1 if classes else width)
        ordered = tuple(sorted(shapes))
        expected = Layout(ordered, tuple(shapes[each] for each in ordered))
        found = self._run("predict", asked, tensors, expected).tensors
        values = found["values"].astype(np.float64)
        if classes and not ((values >= 0).all() and np.allclose(values.sum(1), 1, atol=1e-3)):
            raise TaskFailed("the task's predictions must be probabilities, which add up to 1 for each sample")
        numbers = tuple(f"value {place}" for place in range(1, width + 1)) if width > 1 and not classes else ()
        rows, truth = found["rows"].astype(np.int64), _truth(found.get("truth"), len(classes))
        return Predictions(_shown(forecast.name), classes, values, rows, names, numbers, truth)


def _truth(found: np.ndarray | None, classes: int) -> np.ndarray | None:
    if found is None or not classes:
        return None if found is None else found.astype(np.float64)
    places = found[:, 0].astype(np.int64)
    if (places != found[:, 0]).any() or places.min() < 0 or places.max() >= classes:
        raise TaskFailed(f"the task's labels must be whole numbers from 0 to {classes - 1}")
    return places


def _shown(text: str) -> str:
    return one_line(text, _LONGEST)
