"""Predictions of a task's model for samples that it was not trained on. Runs where the task's own code runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedgrove.node.learning.draws import on_device, placed
from fedgrove.node.learning.reproducible import reproducible, seed_global
from fedgrove.node.learning.scores import StatedScores, class_scores, number_scores
from fedgrove.node.learning.settings import MAX_CONFUSED
from fedgrove.node.learning.tasks.batches import EVALUATION_BATCH, batches, targets_of
from fedgrove.node.learning.tasks.model import TaskModel
from fedgrove.node.learning.tasks.task import Answers, Data, InvalidTask, Pairs, Task, dataset_of

MAX_ROWS = 1 << 24
"""Row numbers travel as float32, which holds no larger whole numbers exactly."""


@dataclass(frozen=True)
class Asked:
    """Samples that predictions are asked for.

    Attributes
    ----------
    data : dataset
        Of pairs; targets mean nothing where ``targets`` is None.
    answers : Answers
        What the model answers, as far as the task says.
    classifies : bool
        Whether these are classes, with or without names.
    targets : Tensor or None
        What is true, where that was asked for as well.
    rows, names
        As of ``Unlabelled``.
    """

    data: Any
    answers: Answers
    classifies: bool
    targets: Tensor | None
    rows: Sequence[int]
    names: Sequence[str]


def asked(task: Task, source: Path, labelled: bool) -> Asked:
    """The samples of a source; InvalidTask, or what the task raises, where it has none."""
    answers = task.answers()
    bare = None if labelled else task.unlabelled(source)
    if bare is not None:
        data = _paired(bare.inputs)
        rows = range(1, len(data) + 1) if bare.rows is None else bare.rows
        known = answers or Answers()
        found = Asked(data, known, bool(known.classes), None, rows, bare.names)
    else:
        given = task.data(source)
        if not isinstance(given, Data):
            raise InvalidTask(f"data(self, source) must return fedgrove.Data, not {type(given).__name__}")
        data = dataset_of(given.train if given.held_out is None else given.held_out)
        targets = targets_of(task, data)
        classifies = bool(answers.classes) if answers else not targets.is_floating_point()
        known = targets if labelled else None
        found = Asked(data, answers or Answers(), classifies, known, range(1, len(data) + 1), ())
    if len(data) > MAX_ROWS:
        raise InvalidTask(f"there are {len(data)} samples: give at most {MAX_ROWS} at a time")
    if len(found.rows) != len(data) or len(found.names) not in (0, len(data)):
        raise InvalidTask("unlabelled(self, source) must give a row, and a name, for each of the inputs or for none")
    return found


def what_predicted(model: TaskModel, wanted: Asked, device: str) -> dict[str, Any]:
    """The number of predictions, their width, and what they mean."""
    width = len(_predicted(model, wanted, range(1), device)[0])
    classes = wanted.answers.classes
    if wanted.classifies and not classes:
        classes = tuple(map(str, range(width)))
    if classes and len(classes) != width:
        raise InvalidTask(f"answers(self) names {len(classes)} classes, but the predictions have {width} columns")
    return {
        "count": len(wanted.data),
        "width": width,
        "classes": list(classes),
        "name": wanted.answers.name,
        "names": list(wanted.names),
    }


def predictions(model: TaskModel, wanted: Asked, device: str) -> dict[str, np.ndarray]:
    """``values`` (n, width), ``rows`` (n,) and, where asked for, ``truth``: places (n, 1) or numbers (n, width)."""
    found = {
        "values": _predicted(model, wanted, range(len(wanted.data)), device),
        "rows": np.asarray(wanted.rows, np.float32),
    }
    if not np.isfinite(found["values"]).all():
        raise InvalidTask("the model's predictions are not all finite numbers")
    if wanted.targets is not None:
        found["truth"] = _truth(model.task, wanted)
    return found


def scores_of(model: TaskModel, data: Any, device: str) -> StatedScores | None:
    """Figures of a shipped task's predictions for labelled samples; None with many classes, or where it overflows."""
    task = model.task
    answers, targets = task.answers() or Answers(), targets_of(task, data)
    wanted = Asked(data, answers, bool(answers.classes), targets, (), ())
    if len(answers.classes) > MAX_CONFUSED:
        return None
    values, truth = _predicted(model, wanted, range(len(data)), device), _truth(model.task, wanted)
    if not np.isfinite(values).all():
        return None
    if answers.classes:
        return class_scores(values, truth[:, 0], answers.classes).statement()
    return number_scores(values, truth).statement()


def _truth(task: Task, wanted: Asked) -> np.ndarray:
    assert wanted.targets is not None
    if not wanted.classifies:
        numbers = wanted.targets.reshape(len(wanted.targets), -1)
        return _as_rows(task.predictions(numbers, False), len(numbers))
    if wanted.targets.dim() != 1:
        raise InvalidTask("targets must be labels, one whole number a sample, to be compared with classes")
    return wanted.targets.reshape(-1, 1).numpy().astype(np.float32)


@torch.no_grad()
def _predicted(model: TaskModel, wanted: Asked, chosen: range, device: str) -> np.ndarray:
    task, found = model.task, []
    with reproducible(), on_device(model.module, device, not model.pure):
        seed_global("evaluation")
        model.module.eval()
        for inputs, _, count in batches(task, wanted.data, torch.tensor(chosen), EVALUATION_BATCH):
            output = task.predictions(model(placed(inputs, model.device)), wanted.classifies)
            found.append(_as_rows(output, count))
    return np.concatenate(found)


def _as_rows(output: Any, count: int) -> np.ndarray:
    if not isinstance(output, Tensor) or not output.dim() or len(output) != count:
        raise InvalidTask("predictions(self, output, classifies) must return a tensor with one row for each sample")
    return output.detach().to("cpu", torch.float32).reshape(count, -1).numpy()


def _paired(inputs: Any) -> Any:
    if isinstance(inputs, Tensor | np.ndarray):
        return dataset_of((inputs, np.zeros(len(inputs), np.int64)))
    found = dataset_of(inputs)
    return found if isinstance(found, Pairs) else _Bare(found)


class _Bare:
    def __init__(self, items: Any) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self._items[index], 0
