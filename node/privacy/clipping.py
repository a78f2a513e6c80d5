"""Norms of whole updates and how they are limited (Geyer et al. 2017, algorithm 1; Andrew et al. 2021, algorithm 1).

The norm is that of all parameters together. The authors' code of the first paper clips tensor by tensor and scales
small updates up; neither is done here.
"""

import math
from collections.abc import Iterable
from decimal import Context, Decimal
from statistics import median

import numpy as np

from fedgrove.node.privacy.settings import CLIP_RANGE, MAX_CLIP, MIN_CLIP, ClientLevelSettings

_CHUNK = 1 << 13  # parameters at a time; BLAS starts no thread for so few


def check_update(update: np.ndarray, length: int) -> None:
    """Raise ValueError unless this is a float32 vector of ``length`` parameters."""
    if update.shape != (length,) or update.dtype != np.float32:
        raise ValueError(
            f"the update is {update.dtype} of shape {update.shape}, but the model has {length} float32 parameters"
        )


def l2_norm(update: np.ndarray) -> float:
    """‖Δw‖₂ of a float32 vector, in float64, which no float32 overflows; infinite when a value is not finite."""
    squares = 0.0
    for start in range(0, len(update), _CHUNK):
        part = update[start : start + _CHUNK].astype(np.float64)
        squares += float(part @ part)
    return math.sqrt(squares) if math.isfinite(squares) else math.inf


def clip_factor(norm: float, clip: float) -> float:
    """1 / max(1, ‖Δw‖₂/S), and 0 for an update that is not finite.

    Such an update counts as zero. To leave the client out instead would reveal to others that its training diverged.
    """
    return min(1.0, clip / norm) if norm > 0 else 1.0


def next_clip(clip: float, below: float, settings: ClientLevelSettings) -> float:
    """S of the next round: S · exp(−η(b̃ − γ)), within ``clip_range``.

    Parameters
    ----------
    clip : float
        S of this round.
    below : float
        b̃, the noisy fraction of this round's updates with a norm of at most S; taken as 0 … 1.
    settings : ClientLevelSettings
        γ, η and the first S.

    The exponential is rounded correctly (by ``decimal``), so that all machines compute the same S.
    """
    exponent = -settings.quantile_rate * (min(max(below, 0.0), 1.0) - settings.quantile)
    factor = float(Context(prec=40).exp(Decimal(exponent)))
    least, most = clip_range(settings)
    return min(max(clip * factor, least), most)


def clip_range(settings: ClientLevelSettings) -> tuple[float, float]:
    """The least and the largest S that a quantile may lead to.

    Votes are hidden: one member can cast those of all. It must not make S, and with it the noise, so large or so small
    that training never recovers.
    """
    return max(settings.clip / CLIP_RANGE, MIN_CLIP), min(settings.clip * CLIP_RANGE, MAX_CLIP)


def median_clip(norms: Iterable[float]) -> float:
    """The paper's S: the median of the norms of a round's updates.

    It depends on the data without any noise, so no (ε, δ) covers what it tells; the paper leaves that out. Within the
    limits of the settings.
    """
    return min(max(median(norms), MIN_CLIP), MAX_CLIP)
