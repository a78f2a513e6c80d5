"""Running variances travel as second moments E[x²], whose mean over clients is that of the pooled data; no torch here.

A mean of variances is not the variance of the pooled data: it leaves out how far apart the clients' means are.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from fedgrove.node.base.tensors import Tensors

VARIANCE, MEAN, MOMENT = "running_var", "running_mean", "running_second_moment"


def travelling(name: str) -> str:
    """The name under which a module's tensor travels."""
    return name.removesuffix(VARIANCE) + MOMENT if name.endswith(VARIANCE) else name


def mean_of(name: str) -> str:
    """Name of the running mean that belongs to a running variance or second moment."""
    return name.removesuffix(VARIANCE).removesuffix(MOMENT) + MEAN


def second_moments(names: Iterable[str]) -> tuple[str, ...]:
    """The names among those of a model that are second moments, sorted."""
    there = set(names)
    return tuple(sorted(name for name in there if name.endswith(MOMENT) and mean_of(name) in there))


def variance_of(moment: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """E[x²] − E[x]², not below zero."""
    return np.maximum(moment - np.square(mean), np.float32(0))


def state_dict_of(model: Mapping[str, np.ndarray], strategy: str = "") -> Tensors:
    """A global model as ``load_state_dict`` of its module takes it: with variances, without a strategy's extras.

    Parameters
    ----------
    model : mapping of str to ndarray
        Float32 tensors, by the names under which they travel.
    strategy : str
        Name of the strategy, with which the names of its extras begin.
    """
    own = {name: value for name, value in model.items() if not (strategy and name.startswith(f"{strategy}/"))}
    for name in second_moments(own):
        own[name.removesuffix(MOMENT) + VARIANCE] = variance_of(own.pop(name), own[mean_of(name)])
    return own
