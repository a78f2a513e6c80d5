"""The set χ that a client's samples are mapped to for comparison (Xu et al. 2025, section "ISM").

χₙ = ⋃ₗ {l·Q_max + i : i = 1 … Xₙˡ}, where Xₙˡ counts the samples of client n with label l. A set says nothing but these
counts: two sets have Σₗ min(Xₙˡ, Xₘˡ) elements in common.
"""

import numpy as np

from fedgrove.common.errors import InvalidInput

Q_MAX = 1 << 32
"""Q_max: more samples of one label than any client has."""

MAX_LABELS = 1 << 31
MAX_ELEMENTS = 1 << 16
"""Largest set that takes part in a private comparison, so that nobody can make a partner work without end."""

ELEMENT = np.dtype(">u8")


def label_counts(labels: np.ndarray, classes: int) -> np.ndarray:
    """Xₙ: how many samples there are of each label.

    Parameters
    ----------
    labels : integer array of shape (samples,)
        From 0 to ``classes`` − 1.

    Returns
    -------
    int64 array of shape (classes,)
    """
    counts = np.bincount(labels, minlength=classes)
    if len(counts) != classes:
        raise InvalidInput(f"there is a label {len(counts) - 1}, but labels range from 0 to {classes - 1}")
    return counts.astype(np.int64)


def elements(counts: np.ndarray) -> np.ndarray:
    """χ of a client with these counts.

    Parameters
    ----------
    counts : integer array of shape (classes,)
        Xₙ.

    Returns
    -------
    uint64 array of shape (Σ counts,), big-endian
        Ascending.

    Raises
    ------
    InvalidInput
        No sample, too many, or a negative count.
    """
    total = int(counts.sum())
    if not 1 <= total <= MAX_ELEMENTS or int(counts.min()) < 0 or len(counts) > MAX_LABELS:
        raise InvalidInput(f"a client compares from 1 to {MAX_ELEMENTS} samples, not {total}: use fewer")
    parts = [np.arange(1, count + 1, dtype=np.uint64) + np.uint64(label * Q_MAX) for label, count in enumerate(counts)]
    return np.concatenate(parts).astype(ELEMENT)
