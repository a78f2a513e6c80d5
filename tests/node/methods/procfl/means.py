"""Means of models as masked sums give them, to compare with."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.ring import WORD, decode, encode


def cluster_mean(models: Sequence[np.ndarray], layout: Layout, bound: float) -> np.ndarray:
    """w_k = 1/n_k Σ wₙ: the model of a cluster."""
    return weighted_mean(models, [Fraction(1, len(models))] * len(models), layout, bound)


def weighted_mean(
    models: Sequence[np.ndarray], weights: Sequence[Fraction], layout: Layout, bound: float
) -> np.ndarray:
    """Σ ωₙ·wₙ for weights that sum to 1, as one masked sum gives it."""
    words = np.zeros(layout.length, WORD)
    for model, weight in zip(models, weights, strict=True):
        np.add(words, encode(model, layout, weight.numerator, weight.denominator, bound), out=words)
    return decode(words, 1, 1, bound)
