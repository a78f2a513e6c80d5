"""Which of a module's tensors are federated, and how they travel.

Federated are parameters that require a gradient and persistent floating-point buffers, each once. A running variance
travels as a second moment (``node.learning.moments``).
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.moments import VARIANCE, mean_of, travelling, variance_of
from fedgrove.node.learning.tasks.task import InvalidTask

_ARRAYS = (torch.float16, torch.float32, torch.float64)
TensorT = TypeVar("TensorT", bound=Tensor)


class Federated:
    """The tensors of a module that are federated, by name.

    Parameters
    ----------
    module : Module
        The task's.
    keep : sequence of str
        Patterns of names that stay at home, as ``head.*``.
    buffers : bool
        Whether running statistics travel. Where updates are clipped they do not: they have no place in the norm.

    Raises
    ------
    InvalidTask
        The module has no tensor to be federated, or one that cannot be.
    """

    def __init__(self, module: nn.Module, keep: Sequence[str] = (), buffers: bool = True) -> None:
        _refuse_odd(module)
        own = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
        statistics = _statistics(module)
        _refuse_short(own | statistics)
        self.parameters: dict[str, nn.Parameter] = _not_kept(own, keep)
        self.buffers = _not_kept(statistics, keep) if buffers else {}
        self._shared: dict[str, Tensor] = {**self.parameters, **self.buffers}
        self._travelling = {name: travelling(name) for name in self._shared}
        self._at_home = {name: value for name, value in (own | statistics).items() if name not in self._shared}
        if not self.parameters:
            raise InvalidTask("the model has no parameter that requires a gradient and is not kept at home")
        for name in self.buffers:
            pair = mean_of(name)
            if name.endswith(VARIANCE) and pair not in self.buffers:
                raise InvalidTask(f"{name} is federated and {pair} is not: keep both at home, or neither")

    def read(self) -> Tensors:
        """The federated tensors as float32 arrays, by the names under which they travel."""
        return {sent: _moment(name, self._shared) for name, sent in self._travelling.items()}

    def write(self, tensors: Mapping[str, np.ndarray]) -> None:
        """Set the federated tensors; a strategy's extras among ``tensors`` are left alone.

        Raises
        ------
        InvalidContent
            One is missing or has another shape.
        """
        given = {name: _taken(tensors, sent, self._shared[name].shape) for name, sent in self._travelling.items()}
        with torch.no_grad():
            for name, value in self._shared.items():
                new = given[name]
                if name.endswith(VARIANCE):
                    new = variance_of(new, given[mean_of(name)])
                _fill(value, new)

    def extras(self, tensors: Mapping[str, np.ndarray]) -> Tensors:
        """What travels with the model: a strategy's extra tensors."""
        own = self._travelling.values()
        return {name: value for name, value in tensors.items() if name not in own}

    def at_home(self) -> Tensors:
        """The tensors that the member keeps from round to round."""
        return {name: value.detach().cpu().numpy().copy() for name, value in self._at_home.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Set the tensors that the member kept; those that it did not are left as they are."""
        with torch.no_grad():
            for name, value in self._at_home.items():
                if name in state:
                    _fill(value, _taken(state, name, tuple(value.shape)))


def _refuse_odd(module: nn.Module) -> None:
    if isinstance(getattr(module, "_orig_mod", None), nn.Module):
        raise InvalidTask("the model is compiled, which changes its tensors' names: return it without torch.compile")
    for name, value in [*module.named_parameters(), *module.named_buffers()]:
        if isinstance(value, UninitializedParameter | UninitializedBuffer):
            raise InvalidTask(f"{name} has no shape yet: give lazy modules their sizes")
        if value.is_complex():
            raise InvalidTask(f"{name} is complex: federated tensors are real")


def _refuse_short(tensors: Mapping[str, Tensor]) -> None:
    """Refuse types that arrays do not have, such as bfloat16; frozen tensors may have them."""
    for name, value in tensors.items():
        if value.dtype not in _ARRAYS:
            kind = str(value.dtype).removeprefix("torch.")
            raise InvalidTask(
                f"{name} is {kind}, and what is trained travels as float32: build it in float32, or freeze it "
                "(requires_grad_(False)); torch.autocast computes with shorter numbers"
            )


def _statistics(module: nn.Module) -> dict[str, Tensor]:
    """Persistent floating-point buffers."""
    lasting = module.state_dict(keep_vars=True)
    return {name: value for name, value in module.named_buffers() if name in lasting and value.is_floating_point()}


def _not_kept(tensors: Mapping[str, TensorT], keep: Sequence[str]) -> dict[str, TensorT]:
    return {name: value for name, value in tensors.items() if not any(fnmatchcase(name, pattern) for pattern in keep)}


def _moment(name: str, tensors: Mapping[str, Tensor]) -> np.ndarray:
    value = tensors[name].detach()
    if name.endswith(VARIANCE):
        value = value + tensors[mean_of(name)].detach().square()
    return value.to("cpu", torch.float32).numpy().copy()


def _fill(value: Tensor, new: np.ndarray) -> None:
    """Copy an array, which may be read-only, into a tensor on whichever device."""
    own = value.detach().cpu()  # the tensor's own memory, unless that is a GPU's
    own.numpy()[...] = new
    if not value.is_cpu:
        value.copy_(own)


def _taken(tensors: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name not in tensors:
        raise InvalidContent(f"tensor {name!r} is missing")
    if tensors[name].shape != shape:
        raise InvalidContent(f"tensor {name!r} has shape {tensors[name].shape}, expected {shape}")
    return np.ascontiguousarray(tensors[name])
