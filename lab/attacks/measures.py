"""How much of an original is in what an attack found."""

import math

import numpy as np

from fedgrove.node.masking.ring import WORD


def psnr(original: np.ndarray, found: np.ndarray) -> float:
    """Peak signal-to-noise ratio of images with values in [0, 1], in dB: −10·log₁₀ of the mean squared difference.

    Infinite for equal images.
    """
    if original.shape != found.shape:
        raise ValueError(f"images of shapes {original.shape} and {found.shape} cannot be compared")
    error = float(np.mean(np.square(original.astype(np.float64) - found)))
    return -10 * math.log10(error) if error else math.inf


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Pearson's correlation of two arrays of one size; 0 where one of them is constant.

    Of independent arrays it is 0 with the standard error ``correlation_error``.
    """
    first, second = (values.astype(np.float64).ravel() for values in (one, other))
    first, second = first - first.mean(), second - second.mean()
    length = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / length if length else 0.0


def correlation_error(size: int) -> float:
    """Standard error of the correlation of this many independent pairs: 1/√(n − 1)."""
    return 1 / math.sqrt(size - 1)


def uniformity(words: np.ndarray) -> float:
    """How far the bytes of a vector of words are from uniform, in standard deviations.

    Pearson's χ² over the 256 values of a byte has 255 degrees of freedom; Wilson and Hilferty's cube root makes it
    normal. Above 4 by chance once in 30,000.
    """
    counts = np.bincount(words.astype(WORD).view(np.uint8), minlength=256)
    expected = counts.sum() / 256
    chi2, degrees = float(np.sum((counts - expected) ** 2) / expected), 255
    return ((chi2 / degrees) ** (1 / 3) - (1 - 2 / (9 * degrees))) / math.sqrt(2 / (9 * degrees))


def nearest(found: np.ndarray, originals: np.ndarray) -> int:
    """Index of the original (n, …) that a reconstruction correlates with most."""
    return int(np.argmax([correlation(found, original) for original in originals]))
