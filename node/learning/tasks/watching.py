"""A step of a task, watched: shapes of what goes in and comes out, and where numbers stop being finite."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedgrove.node.learning.tasks.task import InvalidTask, Task


class StepWatch:
    """Watches a task's module and its loss: their first use is described, every use must give finite numbers.

    Parameters
    ----------
    task : Task
        Its ``loss`` is replaced on this object.
    module : Module
        The task's; gets hooks.
    folder : Path
        The task's, to name files below it.

    Attributes
    ----------
    seen : dict of str to str
        ``inputs``, ``output``, ``target`` and ``loss``: types and shapes, as ``float32 50×8``.

    Raises
    ------
    InvalidTask
        While the module or the loss is used: a number is not finite; with file and line of the method it came from.
    """

    def __init__(self, task: Task, module: nn.Module, folder: Path) -> None:
        self.seen: dict[str, str] = {}
        self._task, self._folder, self._loss = task, folder, task.loss
        module.register_forward_pre_hook(self._enter, with_kwargs=True)
        module.register_forward_hook(self._leave)
        setattr(task, "loss", self._watched_loss)  # noqa: B010 (a method cannot be assigned to)

    def _enter(self, module: nn.Module, positional: tuple, named: Mapping[str, Any]) -> None:
        inputs = dict(named) if named else positional[0] if len(positional) == 1 else positional
        self._note("inputs", inputs, "data(self, source) gives inputs that are not finite", "data")

    def _leave(self, module: nn.Module, positional: tuple, output: Any) -> None:
        self._note("output", output, "the model's output is not finite", "model")

    def _watched_loss(self, output: Any, target: Any) -> Tensor:
        self._note("target", target, "data(self, source) gives targets that are not finite", "data")
        loss = self._loss(output, target)
        self._note("loss", loss, "the loss is not finite", "loss")
        return loss

    def _note(self, name: str, value: Any, fault: str, method: str) -> None:
        if not is_finite(value):
            raise InvalidTask(fault + place_of(self._task, method, self._folder))
        self.seen.setdefault(name, shape_of(value))


def is_finite(value: Any) -> bool:
    """Whether no tensor in a value, a mapping or a sequence of values holds a number that is not finite."""
    if isinstance(value, Tensor):
        return bool(torch.isfinite(value).all())
    if isinstance(value, Mapping):
        return all(map(is_finite, value.values()))
    return all(map(is_finite, value)) if isinstance(value, tuple | list) else True


def shape_of(value: Any) -> str:
    """Type and shape of a tensor, or of those in a mapping or a sequence, in words."""
    if isinstance(value, Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        return f"{kind} {'×'.join(map(str, value.shape))}" if value.dim() else f"{kind} number"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {shape_of(each)}" for name, each in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(map(shape_of, value))
    return type(value).__name__


def place_of(task: Task, method: str, folder: Path) -> str:
    """`` (FILE, line N)`` of a method that the task defines; empty for a default of ``Task``."""
    code = getattr(inspect.unwrap(getattr(type(task), method)), "__code__", None)
    if code is None or not Path(code.co_filename).is_relative_to(folder):
        return ""
    return f" ({Path(code.co_filename).relative_to(folder)}, line {code.co_firstlineno})"
