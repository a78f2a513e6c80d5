"""Lower bounds on ε by playing the attacker: a canary is an update that somebody tries to tell from its neighbour.

A distinguisher looks at what a mechanism released and guesses which of two neighbouring updates was in it. How often it
is wrong either way bounds ε from below. Clopper-Pearson intervals at ``CONFIDENCE`` give both error rates; then

- a Gaussian mechanism of noise multiplier σ keeps every distinguisher at or above the curve of 1/σ-Gaussian privacy,
  so errors (α, β) show a noise multiplier of at most 1/(Φ⁻¹(1 − α) − Φ⁻¹(β)) (Nasr et al. 2023);
- a mechanism of pure ε keeps 1 − β ≤ e^ε·α.

The Gaussian form sees a mechanism that has three quarters of its noise; the pure form alone would need a hundred times
as many trials.
"""

import math
from collections.abc import Callable
from random import Random

import numpy as np
from scipy.stats import beta, norm

from fedgrove.node.privacy.local import gaussian_epsilon

CONFIDENCE = 1 - 1e-5
"""Of each of the two intervals."""

Scores = Callable[[bool, int], np.ndarray]
"""``scores(present, trials)``: what the distinguisher computes from each trial; larger speaks for the canary."""


class Lots:
    """Takes the place of the system's random bytes."""

    def __init__(self) -> None:
        self.restart(0)

    def restart(self, seed: int) -> None:
        self._random = Random(seed)

    def __call__(self, size: int) -> bytes:
        return self._random.randbytes(size)


def error_rates(scores: Scores, trials: int) -> tuple[float, float]:
    """Upper ends of the intervals of both error rates: false alarms, and canaries that were missed.

    The threshold is chosen on a quarter of the trials, and both rates are counted on the others.
    """
    absent, present = scores(False, trials), scores(True, trials)
    learnt = trials // 4
    threshold = (np.median(absent[:learnt]) + np.median(present[:learnt])) / 2
    rest = trials - learnt
    return _upper(int((absent[learnt:] > threshold).sum()), rest), _upper(
        int((present[learnt:] <= threshold).sum()), rest
    )


def gaussian_bound(scores: Scores, trials: int, delta: float) -> float:
    """ε at ``delta`` that a Gaussian mechanism cannot be below; 0 where nothing is shown."""
    alarms, missed = error_rates(scores, trials)
    shown = norm.isf(alarms) - norm.ppf(missed)
    return gaussian_epsilon(1 / shown, delta, 1.0) if shown > 0 else 0.0


def pure_bound(scores: Scores, trials: int) -> float:
    """ε that an ε-private mechanism cannot be below; 0 where nothing is shown."""
    alarms, missed = error_rates(scores, trials)
    return max(0.0, math.log((1 - missed) / alarms)) if missed < 1 else 0.0


def _upper(errors: int, trials: int) -> float:
    """Upper end of Clopper and Pearson's interval."""
    return 1.0 if errors == trials else float(beta.ppf(CONFIDENCE, errors + 1, trials - errors))
