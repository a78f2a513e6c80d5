"""The class that members write: a model and a reader of data; all else has a default."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import ConcatDataset, default_collate

from fedgrove.common.errors import InvalidInput


class InvalidTask(InvalidInput):
    """The task, or its data, cannot be trained on; the message says why, with file and line where there is one."""


@dataclass(frozen=True)
class Data:
    """What a member's source holds.

    Attributes
    ----------
    train : dataset or (inputs, targets)
        A torch ``Dataset`` with a length, whose items are pairs (input, target), or a pair of arrays, tensors or data
        frames of equal length.
    held_out : dataset or (inputs, targets), optional
        Samples that nobody trains on, to evaluate models with.
    """

    train: Any
    held_out: Any = None


@dataclass(frozen=True)
class Unlabelled:
    """Samples to predict for.

    Attributes
    ----------
    inputs : dataset or array
        One item a sample, as the model takes it.
    rows : sequence of int, optional
        Where each stands in its source, counted from 1; by default one after the other.
    names : sequence of str, optional
        What people call each, as the name of a file.
    """

    inputs: Any
    rows: Sequence[int] | None = None
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Answers:
    """What a model answers.

    Attributes
    ----------
    classes : tuple of str
        Names of the classes whose scores are its output; empty where it answers with numbers.
    name : str
        What is predicted.
    """

    classes: tuple[str, ...] = ()
    name: str = "prediction"


class Task:
    """What a federation learns. Subclasses give ``model`` and ``data``; every other method has a default.

    Examples
    --------
    >>> class Readmission(Task):  # doctest: +SKIP
    ...     def model(self):
    ...         return nn.Linear(30, 2)
    ...
    ...     def data(self, source):
    ...         table = np.loadtxt(source, delimiter=",", dtype=np.float32)
    ...         return Data((table[:, :-1], table[:, -1].astype(np.int64)))
    """

    bases: ClassVar[Mapping[str, Path]] = {}
    """Where the frozen bases of the terms lie, by name."""

    def base(self, name: str) -> Path:
        """A frozen base of the terms: a file or a folder, to read; what is in it has been verified."""
        if name not in self.bases:
            named = ", ".join(self.bases) or "none"
            raise InvalidTask(f"the terms name no base {name} (they name {named}): add it to [[task.bases]]")
        return self.bases[name]

    def model(self) -> nn.Module:
        """Build the model, fresh or pretrained. What requires a gradient is federated."""
        raise NotImplementedError("a task needs a method model(self) that returns a torch module")

    def data(self, source: Path) -> Data:
        """Read a member's data."""
        raise NotImplementedError("a task needs a method data(self, source) that returns fedgrove.Data")

    def loss(self, output: Any, target: Any) -> Tensor:
        """The mean loss of a batch: cross-entropy, or mean squared error where targets are floating-point numbers."""
        if target.is_floating_point():
            return functional.mse_loss(*_of_one_shape(output, target))
        return functional.cross_entropy(output, target)

    def losses(self, output: Any, target: Any) -> Tensor | None:
        """The loss of each sample of a batch (n,), whose mean ``loss`` is; None where only ``loss`` knows."""
        if type(self).loss is not Task.loss:
            return None
        if target.is_floating_point():
            output, target = _of_one_shape(output, target)
            return (output - target).square().mean(1)
        if output.dim() != 2 or target.dim() != 1 or int(target.min()) < 0:
            return None  # samples with more than one label each, or with labels that do not count
        return functional.cross_entropy(output, target, reduction="none")

    def metrics(self, output: Any, target: Any) -> Mapping[str, Tensor]:
        """Sums over a batch, by name: ``right`` answers, or ``squared_error`` where targets are floating-point."""
        if target.is_floating_point():
            output, target = _of_one_shape(output, target)
            return {"squared_error": (output - target).square().flatten(1).mean(1).sum()}
        return {"right": (output.argmax(-1) == target).sum()}

    def optimizer(self, parameters: Iterable[nn.Parameter], rate: float) -> torch.optim.Optimizer | None:
        """The optimiser of one round; None for the SGD of ``[training]``, which needs none of torch's classes."""
        return None

    def batch(self, items: Sequence[Any]) -> Any:
        """Make a batch, (inputs, targets), of items.

        Inputs are a tensor, which is the argument of the model's ``forward``; a tuple or list, its positional
        arguments; or a dictionary, its keyword arguments by name.
        """
        return default_collate(list(items))

    def layers(self, model: nn.Module) -> Sequence[nn.Module] | None:
        """The modules whose outputs FedAom holds; None for every linear, convolutional and embedding module."""
        return None

    def unlabelled(self, source: Path) -> Unlabelled | None:
        """Read what to predict for, without targets; None where that is what ``data`` holds out, or else trains on."""
        return None

    def answers(self) -> Answers | None:
        """What the output says; None: scores of numbered classes, or numbers where targets are floating-point."""
        return None

    def predictions(self, output: Any, classifies: bool) -> Tensor:
        """Predictions for a batch, a row for each sample: probabilities of the classes, or numbers.

        Targets that are numbers are mapped in the same way, so that both have one unit.
        """
        rows = output.reshape(len(output), -1)
        return rows.softmax(1) if classifies else rows


def _of_one_shape(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both with a column for each value, so that (n, 1) and (n,) do not broadcast to (n, n)."""
    return output.reshape(len(output), -1), target.reshape(len(target), -1).to(output.dtype)


class Pairs:
    """Arrays of inputs and targets as a dataset."""

    def __init__(self, inputs: Any, targets: Any) -> None:
        self.inputs, self.targets = _as_tensor(inputs, "inputs"), _as_tensor(targets, "targets")
        if len(self.inputs) != len(self.targets):
            raise InvalidTask(f"there are {len(self.inputs)} inputs, but {len(self.targets)} targets")

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.targets[index]

    def take(self, indices: Iterable[int]) -> "Pairs":
        chosen = list(indices)
        return Pairs(self.inputs[chosen], self.targets[chosen])


def joined(first: Any, second: Any) -> Any:
    """Two datasets of one task as one."""
    if isinstance(first, Pairs) and isinstance(second, Pairs) and first.inputs.shape[1:] == second.inputs.shape[1:]:
        parts = zip((first.inputs, first.targets), (second.inputs, second.targets), strict=True)
        return Pairs(*map(torch.cat, parts))
    both: list[Any] = [first, second]
    return ConcatDataset(both)


def dataset_of(given: Any) -> Any:
    """A dataset with ``len`` and items by index, of what ``Data`` was given.

    Raises
    ------
    InvalidTask
    """
    if isinstance(given, tuple):
        if len(given) != 2:
            raise InvalidTask(f"data must be a dataset or a pair (inputs, targets), not {len(given)} values")
        given = Pairs(*given)
    if not (hasattr(given, "__len__") and hasattr(given, "__getitem__")):
        raise InvalidTask(f"data must be a dataset with a length or a pair of arrays, not {type(given).__name__}")
    if len(given) == 0:
        raise InvalidTask("there are no samples: a client needs at least one")
    return given


def _as_tensor(values: Any, what: str) -> Tensor:
    """float32 for floating-point values, int64 for whole numbers, of an array, a tensor or a data frame."""
    array = np.asarray(values)
    if array.dtype == np.bool_ or np.issubdtype(array.dtype, np.integer):
        return torch.from_numpy(np.ascontiguousarray(array, np.int64))
    if np.issubdtype(array.dtype, np.floating):
        return torch.from_numpy(np.ascontiguousarray(array, np.float32))
    raise InvalidTask(f"{what} must be numbers, not {array.dtype}")
