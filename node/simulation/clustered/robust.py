"""Robust means as rivals: Krum and multi-Krum (Blanchard et al. 2017), median and trimmed mean (Yin et al. 2018).

They look at every single model, so masks rule them out: they run in simulations only.
"""

from collections.abc import Callable

import numpy as np

_COLUMNS = 1 << 16  # parameters at a time, so that copies stay small


def krum(models: np.ndarray, attackers: int, chosen: int = 1) -> np.ndarray:
    """The mean of the ``chosen`` models with the least scores: Krum for 1, else multi-Krum.

    The score of a model is the sum of its squared distances to the n − f − 2 models nearest to it.

    Parameters
    ----------
    models : float32 array of shape (n, d)
    attackers : int
        f; n ≥ 2f + 3.

    Returns
    -------
    float32 array of shape (d,)
    """
    return models[krum_order(models, attackers)[:chosen]].mean(axis=0, dtype=np.float64).astype(np.float32)


def krum_order(models: np.ndarray, attackers: int) -> np.ndarray:
    """Models by ascending score, int64 (n,); equals by their number."""
    n = len(models)
    if n < 2 * attackers + 3:
        raise ValueError(f"Krum with {attackers} attackers needs at least {2 * attackers + 3} models, not {n}")
    others = np.sort(squared_distances(models), axis=1)[:, 1 : n - attackers - 1]
    return np.argsort(others.sum(axis=1), kind="stable")


def squared_distances(models: np.ndarray) -> np.ndarray:
    """‖wᵢ − wⱼ‖², float64 (n, n)."""
    products = np.zeros((len(models), len(models)))
    for start in range(0, models.shape[1], _COLUMNS):
        part = models[:, start : start + _COLUMNS].astype(np.float64)
        part -= part.mean(axis=0)  # distances stay, and less cancels below
        products += part @ part.T
    squares = products.diagonal()
    distances = np.maximum(squares[:, None] + squares - 2 * products, 0)
    np.fill_diagonal(distances, 0)
    return distances


def median(models: np.ndarray) -> np.ndarray:
    """The median of each parameter, float32 (d,)."""
    return _by_columns(models, lambda part: np.median(part, axis=0))


def trimmed_mean(models: np.ndarray, trimmed: int) -> np.ndarray:
    """The mean of each parameter without its ``trimmed`` least and as many largest values, float32 (d,)."""
    n = len(models)
    if not 0 <= 2 * trimmed < n:
        raise ValueError(f"of {n} values {trimmed} at either end cannot be left out")
    return _by_columns(models, lambda part: np.sort(part, axis=0)[trimmed : n - trimmed].mean(axis=0, dtype=np.float64))


def _by_columns(models: np.ndarray, reduce: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    starts = range(0, models.shape[1], _COLUMNS)
    return np.concatenate([reduce(models[:, start : start + _COLUMNS]) for start in starts]).astype(np.float32)
