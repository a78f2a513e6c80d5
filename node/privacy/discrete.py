"""Discrete Gaussian noise on the integers, exact, for millions of coordinates at a time.

N_ℤ(0, v) has P(k) ∝ exp(−k²/2v) (Canonne, Kamath and Steinke 2020). Their sampler rejects one candidate after the
other; here tables are looked up, which numpy does for whole vectors. No noise is ever rounded from a float:

1. Up to v = 1600² it is a mixture of ``triangles`` and a small ``residue``, in which k has the probability w_k/2²⁵⁶:
   integers, for |k| ≤ 19.2·√v.
2. A wider Gaussian is X₁ + c·X₂ with Var X₁ = 16c² and Var X₂ = (v − 16c²)/c², both of the first kind or sums again.

How far is it from what the accounting assumes? Write N(x; v) for the density of the normal distribution and η(w) =
2·Σ_{j≥1} exp(−2π²·w²·j²). Poisson's summation formula gives, for every centre a, Σ_{k∈ℤ} N(k − a; w²) ∈ 1 ± η(w).
Hence P(k) = N(k; v)·(1 ± η(√v))⁻¹ for a discrete Gaussian. For the sum of two independent ones, with N(j; a)·N(k − j;
b) = N(k; a + b)·N(j − ka/(a + b); w²) and w² = ab/(a + b), it gives N(k; a + b) up to factors like these; for X₁ +
c·X₂ likewise with w²/c². So a sum of discrete Gaussians is a discrete Gaussian up to a factor in each probability.
Its logarithm is at most ``log_ratio``, below 10⁻⁶⁷ for one share and below 10⁻⁶⁰ for the sum of a million
(``sum_log_ratio``; Kairouz, Liu and Steinke 2021 bound it likewise). What is lost as the w_k are finite in number and
size is ``distance``, a statistical distance below 2⁻²³⁸ a coordinate. Both are far below what a double can add to an ε
or δ.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from fedgrove.node.masking.keys import Random
from fedgrove.node.privacy.residue import log_ratio
from fedgrove.node.privacy.stream import Stream
from fedgrove.node.privacy.triangles import WIDEST, Triangles, triangles

MIN_VARIANCE = 16
MAX_VARIANCE = 1 << 52

_WIDEST_STEP = 128


@dataclass(frozen=True)
class Wide:
    """X₁ + step·X₂."""

    variance: Fraction
    step: int
    fine: Triangles
    coarse: "Triangles | Wide"

    def add(self, words: np.ndarray, step: int, stream: Stream) -> None:
        """Add ``step`` times an independent draw to each of ``words``, uint32, modulo 2³²."""
        self.coarse.add(words, step * self.step, stream)
        self.fine.add(words, step, stream)

    @property
    def log_ratio(self) -> float:
        """Bound on |ln P(k)/N(k; v)|."""
        between = self.fine.variance * (self.variance - self.fine.variance) / self.variance / self.step**2
        return self.fine.log_ratio + self.coarse.log_ratio + log_ratio(between)

    @property
    def distance(self) -> float:
        """Bound on the statistical distance that the finite tables make."""
        return self.fine.distance + self.coarse.distance


@lru_cache(maxsize=16)
def discrete_gaussian(variance: Fraction) -> Triangles | Wide:
    """A sampler of N_ℤ(0, ``variance``); up to ``log_ratio`` and ``distance``, both negligible.

    Raises
    ------
    ValueError
        The variance is below 16, where a sum of noises is no discrete Gaussian any more, or above 2⁵².
    """
    if not MIN_VARIANCE <= variance <= MAX_VARIANCE:
        raise ValueError(f"the noise must have a variance from {MIN_VARIANCE} to 2^52 grid units, not {variance}")
    if variance <= WIDEST:
        return triangles(variance)
    step = step_of(variance)
    fine = Fraction(16 * step**2)
    return Wide(variance, step, triangles(fine), discrete_gaussian((variance - fine) / step**2))


def step_of(variance: Fraction) -> int:
    """c, with which N_ℤ(0, v) is N_ℤ(0, 16c²) + c·N_ℤ(0, (v − 16c²)/c²) for v above 1600²: two parts of like width."""
    return min(math.isqrt(math.isqrt(math.floor(variance))) // 2, _WIDEST_STEP)


def add_noise(words: np.ndarray, variance: Fraction, random: Random) -> None:
    """Add independent noise N_ℤ(0, ``variance``) to each word, modulo 2³², in place.

    Parameters
    ----------
    words : uint32 array, one-dimensional and contiguous
    random : Random
        ``os.urandom``: the guarantee is as good as this.
    """
    discrete_gaussian(variance).add(words, 1, Stream(random))


def sum_log_ratio(variance: Fraction, shares: int) -> float:
    """Bound on |ln P(k)/N(k; n·v)| for the sum of n shares of variance v: n·(a share's own + η(√(v/2)))."""
    return shares * (discrete_gaussian(variance).log_ratio + log_ratio(variance / 2))
