"""What a node asks of a task, as jobs of the sandbox: each a function of a header and tensors to the same.

Runs where the member's own code runs. Nothing that it returns is believed before it is checked.
"""

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Subset

from fedgrove.common.text import one_line
from fedgrove.node.base.fault_places import place_of_fault
from fedgrove.node.base.frozen_base import BASES
from fedgrove.node.base.tensors import Tensors, prefixed, without_prefix
from fedgrove.node.learning import training
from fedgrove.node.learning.held_out import HoldOutRule, HoldOutSplit, mark_of, split
from fedgrove.node.learning.local_update import MODEL, STATE
from fedgrove.node.learning.reproducible import seed_global
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.strategies.base import Strategy
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.learning.tasks.batches import targets_of
from fedgrove.node.learning.tasks.images import Images
from fedgrove.node.learning.tasks.loading import example_data, load_task
from fedgrove.node.learning.tasks.model import TaskModel
from fedgrove.node.learning.tasks.predicting import Asked, asked, predictions, scores_of, what_predicted
from fedgrove.node.learning.tasks.tabular import Tabular
from fedgrove.node.learning.tasks.task import Data, InvalidTask, Pairs, Task, dataset_of
from fedgrove.node.learning.tasks.watching import StepWatch, is_finite, place_of
from fedgrove.node.learning.training import HOME, STRATEGY, Sums


def first(header: dict[str, Any], tensors: Tensors, folder: Path, source: Path | None) -> tuple[dict, Tensors]:
    """The first model, and what the strategy sends with it."""
    task, keep = _task(header, folder), header["keep"]
    return {}, training.first_tensors(task, _strategy(header), header["seed"], keep, header["buffers"])


def describe(header: dict[str, Any], tensors: Tensors, folder: Path, source: Path | None) -> tuple[dict, Tensors]:
    """How many samples there are, and the shapes of a first model and of what a client keeps from round to round."""
    task, strategy = _task(header, folder), _strategy(header)
    model = _model(header, task)
    tensors = model.tensors() | strategy.initial_extras(model.weights())
    answer = _counts(header, task, source) | {
        "model": {name: list(value.shape) for name, value in tensors.items()},
        "kept": {name: list(shape) for name, shape in training.kept_layout(model, strategy).items()},
    }
    return answer, {}


def train(header: dict[str, Any], tensors: Tensors, folder: Path, source: Path | None) -> tuple[dict, Tensors]:
    """A round of training: ``model/`` and ``state/`` tensors in, the same out."""
    return _trained(header, tensors, folder, source, _model(header, _task(header, folder)))


def step(header: dict[str, Any], tensors: Tensors, folder: Path, source: Path | None) -> tuple[dict, Tensors]:
    """As ``train``, watched: also which shapes the first batch has on its way."""
    task = _task(header, folder)
    model = _model(header, task)
    watch = StepWatch(task, model.module, folder)
    answer, update = _trained(header, tensors, folder, source, model)
    return answer | {"seen": watch.seen}, update


def look(header: dict[str, Any], tensors: Tensors, folder: Path, source: Path | None) -> tuple[dict, Tensors]:
    """What the task is, without data: its class, and the shapes of two models that it makes one after the other.

    Also those of what the strategy sends with a model, and of what it keeps of a client.
    """
    task = _task(header, folder)
    models = [_model(header, task) for _ in range(2)]
    for name, value in models[0].module.state_dict().items():
        if not is_finite(value):
            raise InvalidTask(f"{name} of a fresh model is not finite{place_of(task, 'model', folder)}")
    shapes = [{name: list(value.shape) for name, value in model.tensors().items()} for model in models]
    strategy = _strategy(header)
    extras = {name: list(value.shape) for name, value in strategy.initial_extras(models[0].weights()).items()}
    layout = training.kept_layout(models[0], strategy)
    kept, state = _named(HOME, layout), _named(STRATEGY, layout)
    answer = {"name": type(task).__name__, "model": shapes[0], "again": shapes[1]}
    return answer | {"kept": kept, "extras": extras, "state": state}, {}


def _named(prefix: str, layout: Mapping[str, tuple[int, ...]]) -> dict[str, list[int]]:
    return {name.removeprefix(prefix): list(shape) for name, shape in layout.items() if name.startswith(prefix)}


def example(header: dict[str, Any], tensors: Tensors, folder: Path, source: Path | None) -> tuple[dict, Tensors]:
    """The example data that the folder's own code writes, in base 64."""
    ending, data = example_data(folder)
    return {"ending": ending, "data": b64encode(data).decode()}, {}


def evaluate(header: dict[str, Any], tensors: Tensors, folder: Path, source: Path | None) -> tuple[dict, Tensors]:
    """Sums of the task's metrics over the samples held out, or ``which``; those that are not finite are left out.

    ``fault`` says why the task's own are not there, and ``place`` where it computes them.
    """
    task = _task(header, folder)
    model = _model(header, task)
    data = _data(header, task, source, header.get("which", "held_out"))
    sums = training.evaluate(model, data, tensors, header.get("device", "cpu"))
    answer = _answer(sums, task, folder) | {"only_class": sums.only_class}
    found = scores_of(model, data, header.get("device", "cpu")) if header["name"] else None
    return answer if found is None else answer | {"scores": found.to_table()}, {}


def measure(header: dict[str, Any], tensors: Tensors, folder: Path, source: Path | None) -> tuple[dict, Tensors]:
    """As ``evaluate``, of a member's own: with what it keeps, the squares of the losses, and all sums' names."""
    task = _task(header, folder)
    model = _model(header, task)
    model.federated.restore(without_prefix(HOME, without_prefix(STATE, tensors)))
    data, device = _data(header, task, source, "held_out"), header.get("device", "cpu")
    sums = training.evaluate(model, data, without_prefix(MODEL, tensors), device, squares=True)
    return _answer(sums, task, folder) | {"names": sorted(sums.totals)}, {}


def forecast(header: dict[str, Any], tensors: Tensors, folder: Path, source: Path | None) -> tuple[dict, Tensors]:
    """How many predictions a model makes for a source, and what they mean."""
    model, wanted = _forecasting(header, tensors, folder, source)
    return what_predicted(model, wanted, header.get("device", "cpu")), {}


def predict(header: dict[str, Any], tensors: Tensors, folder: Path, source: Path | None) -> tuple[dict, Tensors]:
    """The predictions, with what is true where ``labelled`` asks for it."""
    return {}, predictions(*_forecasting(header, tensors, folder, source), header.get("device", "cpu"))


def _forecasting(
    header: dict[str, Any], tensors: Tensors, folder: Path, source: Path | None
) -> tuple[TaskModel, Asked]:
    if source is None:
        raise InvalidTask("there are no data: give the task's data(self, source) a source")
    task = _task(header, folder)
    model = _model(header, task)
    own = sorted(model.federated.at_home())
    if own:
        raise InvalidTask(f"{', '.join(own[:3])} stays at home with each member, so the model on record cannot predict")
    model.load(tensors)
    return model, asked(task, source, header["labelled"])


def _answer(sums: Sums, task: Task, folder: Path) -> dict[str, Any]:
    finite = {name: value for name, value in sums.totals.items() if math.isfinite(value)}
    said = {"samples": sums.samples, "totals": finite, "place": place_of(task, "metrics", folder)}
    if sums.fault is None:
        return said
    message, place = one_line(str(sums.fault), 200), place_of_fault(sums.fault, folder)
    if not isinstance(sums.fault, InvalidTask):
        message = f"its metrics raised {type(sums.fault).__name__}{message and ': ' + message}"
    return said | {"fault": message + (f" ({place})" if place else said["place"])}


def count_labels(header: dict[str, Any], tensors: Tensors, folder: Path, source: Path | None) -> tuple[dict, Tensors]:
    """How many of a client's samples have each of ``labels`` labels, those included that its own rule holds out."""
    task, labels, header = _task(header, folder), header["labels"], header | {"split": None}
    targets = targets_of(task, _data(header, task, source, "train"))
    if targets.dtype != torch.int64 or targets.dim() != 1:
        raise InvalidTask(f"targets must be labels, one whole number a sample, not {targets.dtype} {[*targets.shape]}")
    if not 0 <= int(targets.min()) <= int(targets.max()) < labels:
        raise InvalidTask(f"targets must be labels from 0 to {labels - 1}: see procfl.labels in the terms")
    return {"counts": torch.bincount(targets, minlength=labels).tolist()}, {}


def _trained(
    header: Mapping[str, Any], tensors: Tensors, folder: Path, source: Path | None, model: TaskModel
) -> tuple[dict, Tensors]:
    task = model.task
    shared = _samples(task, folder / header["shared"], "train") if header["shared"] else None
    update = training.train(
        model,
        _data(header, task, source, "train"),
        without_prefix(MODEL, tensors),
        _strategy(header),
        TrainingSettings(**header["training"]),
        shared,
        **header["position"],
        client=header["client"],
        state=without_prefix(STATE, tensors),
        device=header.get("device", "cpu"),
    )
    return {"loss": update.loss}, prefixed(MODEL, update.tensors) | prefixed(STATE, update.state)


def _task(header: Mapping[str, Any], folder: Path) -> Task:
    match header["name"]:
        case "images":
            return Images(**header["options"])
        case "tabular":
            return Tabular(TableFormat.of(header.get("form", {})), **header["options"])
    return load_task(folder, header["options"], {name: Path(path) for name, path in header[BASES].items()})


def _model(header: Mapping[str, Any], task: Task) -> TaskModel:
    return training.build(task, header["keep"], header["buffers"])


def _strategy(header: Mapping[str, Any]) -> Strategy:
    return make_strategy(header["strategy"]["name"], header["strategy"]["options"])


def _data(header: Mapping[str, Any], task: Task, source: Path | None, which: str) -> Any:
    """The samples of a source to train or to evaluate on, or those of one of several clients that practise on it."""
    if source is None:
        raise InvalidTask("there are no data: give the task's data(self, source) a source")
    place, rule = source / header.get("inside", ""), header.get("split")
    if which == "held_out" and rule is None:
        return _part(header, _samples(task, place, which), at_least=0)
    own = _part(header, _samples(task, place, "train"))
    if rule is None:
        return own
    found = _split(own, rule)
    return _taken(own, found.train if which == "train" else found.held_out)


def _part(header: Mapping[str, Any], whole: Any, at_least: int = 1) -> Any:
    """The samples of one of several clients, where they share a source."""
    if header["part"] is None:
        return whole
    index, parts = header["part"]
    if len(whole) < at_least * parts:
        raise InvalidTask(f"there are {len(whole)} samples for {parts} clients: each needs at least one")
    return _taken(whole, range(index, len(whole), parts))


def _taken(data: Any, chosen: Sequence[int]) -> Any:
    return data.take(chosen) if isinstance(data, Pairs) else Subset(data, chosen)


def _split(own: Any, rule: dict[str, Any]) -> HoldOutSplit:
    known = HoldOutRule.from_header(rule)
    marks = []
    for index in range(len(own)):
        seed_global("items")
        marks.append(mark_of(own[index], known))
    return split(marks, known)


def _counts(header: Mapping[str, Any], task: Task, source: Path | None) -> dict[str, Any]:
    """How many samples there are, how many of them are held out, and by which boundary."""
    if source is None:
        return {"samples": 0, "held_out": 0}
    if header.get("split") is None:
        samples = len(_data(header, task, source, "train"))
        return {"samples": samples, "held_out": _held_out(header, task, source)}
    own = _part(header, _samples(task, source / header.get("inside", ""), "train"))
    found = _split(own, header["split"])
    return {"samples": len(own), "held_out": len(found.held_out), "boundary": found.boundary.hex()}


def _held_out(header: Mapping[str, Any], task: Task, source: Path) -> int:
    held_out = getattr(task.data(source / header.get("inside", "")), "held_out", None)
    return 0 if held_out is None else len(_part(header, dataset_of(held_out), at_least=0))


def _samples(task: Task, source: Path, which: str) -> Any:
    given = task.data(source)
    if not isinstance(given, Data):
        raise InvalidTask(f"data(self, source) must return fedgrove.Data, not {type(given).__name__}")
    values = getattr(given, which)
    if values is None:
        raise InvalidTask("data(self, source) holds nothing out: give fedgrove.Data held_out samples to evaluate on")
    return dataset_of(values)
