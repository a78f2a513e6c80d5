"""A task on a GPU with the draws of the processor: the same samples, the same initial weights, the same dropout.

torch's generators differ between devices. Inside ``on_device`` what a module draws on a GPU is drawn on the processor
and copied. Draws that an operation makes inside a kernel (attention with fused dropout) are not caught.

Source: torch's extension point ``TorchDispatchMode``.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from fedgrove.node.learning import devices

DRAWS = frozenset(
    {"bernoulli", "bernoulli_", "exponential_", "multinomial", "normal", "normal_", "normal_functional", "rand"}
    | {"rand_like", "randint", "randint_like", "randn", "randn_like", "random_", "randperm", "uniform_"}
)
"""Operators that draw, by name, with a counterpart on the processor."""
DROPOUT = "native_dropout"
PROCESSOR = torch.device("cpu")


class DrawsOnProcessor(TorchDispatchMode):
    """Inside, what would be drawn on a device is drawn on the processor."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Torch would wrap what follows to keep its compiler off, and import that for it: a second or more of every job.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given, name = dict(kwargs or {}), func.overloadpacket.__name__
        if name == DROPOUT and args[0].device.type == self._device.type and args[2] is not False:
            return _dropout(args[0], args[1])
        if name not in DRAWS or not self._concerns(args, given):
            return func(*args, **given)
        place = given.get("device") or self._device
        here = given | {"device": "cpu"} if given.get("device") else given
        drawn = func(*_moved(args, PROCESSOR), **_moved(here, PROCESSOR))
        return args[0].copy_(drawn) if name.endswith("_") else drawn.to(place)

    def _concerns(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> bool:
        places = [each.device for each in args if isinstance(each, Tensor)]
        places += [torch.device(given["device"])] if given.get("device") is not None else []
        return any(place.type == self._device.type for place in places)


@contextmanager
def on_device(module: nn.Module, device: str, draws: bool = True) -> Iterator[None]:
    """Have a module on a device, and what it ``draws`` there drawn on the processor; on the processor nothing changes.

    Raises
    ------
    InvalidInput
        There is none.
    """
    if devices.choose(device) == "cpu":
        yield
        return
    devices.set_up(device)
    module.to(device)
    try:
        with DrawsOnProcessor(torch.device(device)) if draws else nullcontext():
            yield
    finally:
        module.to("cpu")


def placed(value: Any, device: torch.device) -> Any:
    """Tensors, or those in tuples, lists or dictionaries, on a device; on the processor the value as it is."""
    return value if device.type == "cpu" else _moved(value, device)


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {name: _moved(each, device) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)([_moved(each, device) for each in value])
    return value


def _dropout(values: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """As torch does on the processor: a mask of draws, scaled."""
    noise = torch.empty(values.shape, dtype=values.dtype).bernoulli_(1 - rate)
    scaled = noise / (1 - rate) if rate < 1 else noise
    return values * scaled.to(values.device), noise.bool().to(values.device)
