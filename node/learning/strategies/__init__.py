"""Federated methods, one file each: the class that ``settings.STRATEGIES`` names is in the module of that name.

base      what a strategy is
checks    of their options, and of what they need of a task
penalty   quadratic penalties on the weights
alongside tensors that go with the weights, one for each
"""

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module

from fedgrove.node.learning import settings
from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundEnd, RoundStart, Strategy
from fedgrove.node.learning.strategies.fedavg import FedAvg

__all__ = ["STRATEGIES", "Batch", "LocalTerm", "RoundEnd", "RoundStart", "Strategy", "make_strategy"]


def _class_of(name: str) -> type[FedAvg]:
    """The class of this name, without capitals, in the module of this name."""
    found = vars(import_module(f"{__name__}.{name}"))
    return next(value for key, value in found.items() if key.lower() == name and isinstance(value, type))


STRATEGIES: dict[str, type[FedAvg]] = {name: _class_of(name) for name in settings.STRATEGIES}


def make_strategy(name: str, options: Mapping[str, float] | None = None) -> Strategy:
    """Build a strategy from its name and options, as they stand in a federation's configuration.

    Raises
    ------
    ValueError
        Unknown name or option, or a value out of range: one sentence.
    """
    if name not in STRATEGIES:
        raise ValueError(f"unknown strategy {name!r}: choose one of {', '.join(STRATEGIES)}")
    kind = STRATEGIES[name]
    types = {field.name: field.type for field in fields(kind)}
    values: dict[str, float] = {}
    for key, value in (options or {}).items():
        if key not in types:
            known = f"its options are {', '.join(types)}" if types else "it has no options"
            raise ValueError(f"unknown option {key!r} of {name}: {known}")
        values[key] = _convert(f"{name}'s option {key}", types[key], value)
    return kind(**values)


def _convert(label: str, kind: object, value: float) -> float:
    """Configuration files hold numbers as float; whole ones become int where the option is a count."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value - value != 0:
        raise ValueError(f"{label} must be a finite number, not {value!r}")
    if kind is not int:
        return float(value)
    if value != int(value):
        raise ValueError(f"{label} must be a whole number, not {value!r}")
    return int(value)
