"""Federated methods, one file each: the class that ``settings.STRATEGIES`` names is in the module of that name.

base      what a strategy is
checks    of what they need of a task
penalty   quadratic penalties on the weights
alongside tensors that go with the weights, one for each
"""

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module

from fedgrove.node.base.strict_tables import InvalidConfig, build
from fedgrove.node.learning import settings
from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundEnd, RoundStart, Strategy

__all__ = ["STRATEGIES", "Batch", "LocalTerm", "RoundEnd", "RoundStart", "Strategy", "make_strategy"]


def _class_of(name: str) -> type[Strategy]:
    """The class of this name, without capitals, in the module of this name."""
    found = vars(import_module(f"{__name__}.{name}"))
    return next(value for key, value in found.items() if key.lower() == name and isinstance(value, type))


STRATEGIES: dict[str, type[Strategy]] = {name: _class_of(name) for name in settings.STRATEGIES}


def make_strategy(name: str, options: Mapping[str, float] | None = None) -> Strategy:
    """Build a strategy from its name and options, as they stand in a federation's terms.

    Raises
    ------
    InvalidConfig
        Unknown name or option, or a value out of range.
    """
    if name not in STRATEGIES:
        raise InvalidConfig(f"strategy.name must be one of {', '.join(STRATEGIES)}, not {name!r}")
    if options and not fields(STRATEGIES[name]):
        raise InvalidConfig(f"strategy.options must be left out: {name} has none")
    # Terms hold all options as float, also those that are counts.
    given = {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in (options or {}).items()
    }
    return build(STRATEGIES[name], given, "strategy.options")
