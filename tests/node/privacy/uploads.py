"""Uploads under client-level privacy as clients make them, from a grid alone."""

import numpy as np

from fedgrove.node.masking.keys import Random
from fedgrove.node.privacy.client_level import quantise, rate_words
from fedgrove.node.privacy.discrete import add_noise
from fedgrove.node.privacy.grid import Grid
from fedgrove.node.privacy.mechanism import Rates


def noisy_update(grid: Grid, update: np.ndarray, random: Random, rates: Rates = ()) -> np.ndarray:
    """A clipped, rounded update, the rates, and one client's share of the noise."""
    return _with_share(grid, quantise(grid, update, random, rates), random)


def noisy_rates(grid: Grid, rates: Rates, random: Random) -> np.ndarray:
    """The same of a round that only evaluates."""
    return _with_share(grid, rate_words(grid, rates, random), random)


def _with_share(grid: Grid, words: np.ndarray, random: Random) -> np.ndarray:
    add_noise(words, grid.share_variance, random)
    return words
