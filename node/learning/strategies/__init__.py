"""Federated methods, one file each.

base      what a strategy is
fedavg    FedAvg
fedprox   FedProx
fedcurv   FedCurv
moon      MOON
scaffold  SCAFFOLD
feddyn    FedDyn
fedlc     FedLC
fedntd    FedNTD
fedsam    FedSAM
fedspeed  FedSpeed
share     FedAvg on local and shared samples
fedaom    FedAom
fedaomsam FedAom with FedSAM's step
checks    of their options, and of what they need of a task
penalty   quadratic penalties on the weights
alongside tensors that go with the weights, one for each
"""

from collections.abc import Mapping
from dataclasses import fields

from fedgrove.node.learning.strategies.base import Batch, LocalTerm, RoundEnd, RoundStart, Strategy
from fedgrove.node.learning.strategies.fedaom import FedAom
from fedgrove.node.learning.strategies.fedaomsam import FedAomSam
from fedgrove.node.learning.strategies.fedavg import FedAvg
from fedgrove.node.learning.strategies.fedcurv import FedCurv
from fedgrove.node.learning.strategies.feddyn import FedDyn
from fedgrove.node.learning.strategies.fedlc import FedLc
from fedgrove.node.learning.strategies.fedntd import FedNtd
from fedgrove.node.learning.strategies.fedprox import FedProx
from fedgrove.node.learning.strategies.fedsam import FedSam
from fedgrove.node.learning.strategies.fedspeed import FedSpeed
from fedgrove.node.learning.strategies.moon import Moon
from fedgrove.node.learning.strategies.scaffold import Scaffold
from fedgrove.node.learning.strategies.share import Share

__all__ = ["STRATEGIES", "Batch", "LocalTerm", "RoundEnd", "RoundStart", "Strategy", "make_strategy"]

STRATEGIES: dict[str, type[FedAvg]] = {
    "fedavg": FedAvg,
    "fedaom": FedAom,
    "fedaomsam": FedAomSam,
    "fedcurv": FedCurv,
    "feddyn": FedDyn,
    "fedlc": FedLc,
    "fedntd": FedNtd,
    "fedprox": FedProx,
    "fedsam": FedSam,
    "fedspeed": FedSpeed,
    "moon": Moon,
    "scaffold": Scaffold,
    "share": Share,
}


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
