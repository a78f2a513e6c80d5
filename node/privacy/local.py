"""Local differential privacy: a client clips its update and adds its own Gaussian noise.

σ comes from (ε, δ) by the exact condition of Balle and Wang (2018, theorem 8) for the Gaussian mechanism of sensitivity
Δ: Φ(Δ/2σ − εσ/Δ) − e^ε·Φ(−Δ/2σ − εσ/Δ) ≤ δ.

Sensitivity: locally any two updates are neighbours, and two vectors of norm at most C are up to 2C apart, so Δ = 2C.
MindSpore takes Δ = C, which at its defaults (ε = 50, δ = 0.01) gives σ = 0.125·C; for two opposite updates that is
ε = 165.

Noise: floats with noise in their last bits betray the value below it (Mironov 2012), so clipped values are integers on
a grid of γ = σ/2²⁴ and the noise is a discrete Gaussian there. Rounding may lengthen the vector by γ√d/2, which the
clip allows for. A discrete Gaussian of the variance v is the continuous one of v − 9 after a random rounding to the
grid (``grid`` has the proof), which is post-processing; v = 2⁴⁸, so σ is short by a factor of 2·10⁻¹⁴.

Composition: T uploads with the same σ are one Gaussian mechanism of sensitivity √T·Δ (Dong, Roth and Su 2022), which is
exact. Nothing is gained from sampling, since the ledger shows who took part.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.tensors import flatten
from fedgrove.node.masking.keys import Random
from fedgrove.node.masking.ring import kept_within
from fedgrove.node.privacy.clipping import check_update, l2_norm
from fedgrove.node.privacy.discrete import add_noise
from fedgrove.node.privacy.mechanism import Start
from fedgrove.node.privacy.settings import LocalSettings
from fedgrove.node.privacy.weighted import WeightedMean

_GRID = 24  # σ is 2²⁴ grid units
VARIANCE = Fraction(1 << 2 * _GRID)
_SLACK = 2.0**-20  # more than the error of a norm in float64 of up to 2³² numbers
# Relative error of ``gaussian_delta`` by rounding, with room to spare.
ROUNDING = 1e-9


@dataclass(frozen=True)
class LocalMechanism:
    """The clipped and noised upload of a model of one size.

    Attributes
    ----------
    length : int
        d.
    clip : float
        C, bound on the Euclidean norm of the whole update.
    sigma : float
        Standard deviation of the noise in each parameter.
    """

    length: int
    clip: float
    sigma: float

    @property
    def sensitivity(self) -> float:
        """2C: the largest distance between two clipped updates."""
        return 2 * self.clip

    @property
    def noise_multiplier(self) -> float:
        """What an upload counts as, for the accountant."""
        return self.sigma / self.sensitivity

    @property
    def unit(self) -> float:
        """γ, the grid."""
        return math.ldexp(self.sigma, -_GRID)

    def epsilon_after(self, uploads: int, delta: float) -> float:
        """ε at ``delta`` of this many uploads of one client."""
        return gaussian_epsilon(self.sigma, delta, math.sqrt(uploads) * self.sensitivity)


@lru_cache(maxsize=8)
def mechanism_for(settings: LocalSettings, length: int) -> LocalMechanism:
    """Calibrate the noise for a model of ``length`` parameters; a function of public terms only.

    Raises
    ------
    InvalidInput
        The grid is too coarse for the clip: ε is tiny, or the model has billions of parameters.
    """
    mechanism = LocalMechanism(
        length, settings.clip, gaussian_sigma(settings.epsilon, settings.delta, 2 * settings.clip)
    )
    if _room(mechanism) < settings.clip / 2:
        raise InvalidInput(f"a model of {length} parameters is too large for local privacy at ε = {settings.epsilon:g}")
    return mechanism


def randomize(mechanism: LocalMechanism, update: np.ndarray, random: Random) -> np.ndarray:
    """Clip an update and add noise. Twice the same update costs as two rounds: keep the result, never draw again.

    Parameters
    ----------
    update : float32 array of shape (d,)
        Δ, the trained model less the global model. One that is not finite counts as zero.
    random : Random
        ``os.urandom``; the guarantee is as good as this. Seeded in tests and simulations only.

    Returns
    -------
    float32 array of the same shape
        May be public; rounding it, clamping it or adding masks does not weaken the guarantee.

    Raises
    ------
    InvalidInput
        Wrong shape or type.
    """
    check_update(update, mechanism.length)
    words = on_grid(mechanism, update).view(np.uint32)
    add_noise(words, VARIANCE, random)
    return (words.view(np.int32) * mechanism.unit).astype(np.float32)


@dataclass(frozen=True)
class LocalMean(WeightedMean):
    """Clipped updates with each client's own noise, within the bound of the masks, and then a weighted mean.

    ValueError where the settings do not suit a model of this size.
    """

    hides_divergence: ClassVar[bool] = True

    settings: LocalSettings = field(kw_only=True)

    def __post_init__(self) -> None:
        mechanism_for(self.settings, self.layout.length)

    @property
    def mechanism(self) -> LocalMechanism:
        """Clip and noise for this model."""
        return mechanism_for(self.settings, self.layout.length)

    def vector(self, trained: np.ndarray, start: Start, random: Random) -> np.ndarray:
        """As ``WeightedMean``: what is cut off at the bound is noise."""
        noisy = randomize(self.mechanism, self.change(trained, start), random)
        return kept_within(noisy if self.masked == "delta" else flatten(start()) + noisy, self.bound)


def on_grid(mechanism: LocalMechanism, update: np.ndarray) -> np.ndarray:
    """The clipped update in grid units, int32 (d,), of a norm of at most C/γ."""
    norm, room = l2_norm(update), _room(mechanism)
    if math.isinf(norm):
        return np.zeros(len(update), np.int32)
    scale = room / norm if norm > room else 1.0
    return np.rint(update * np.float64(scale / mechanism.unit)).astype(np.int32)


def _room(mechanism: LocalMechanism) -> float:
    """The norm that is left for an update before it is rounded, so that it has at most C afterwards."""
    return mechanism.clip * (1 - _SLACK) - mechanism.unit * math.sqrt(mechanism.length) / 2


def gaussian_delta(sigma: float, epsilon: float, sensitivity: float) -> float:
    """δ of the Gaussian mechanism at ε, exactly (Balle and Wang 2018, theorem 8)."""
    ratio = sensitivity / sigma
    upper = log_normal(ratio / 2 - epsilon / ratio)
    lower = log_normal(-ratio / 2 - epsilon / ratio)
    return -math.exp(upper) * math.expm1(min(0.0, epsilon + lower - upper))


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """The least σ that keeps (ε, δ), and so little more that the formula's rounding cannot break them."""
    target = delta * (1 - ROUNDING)
    return sensitivity * _least(lambda sigma: gaussian_delta(sigma, epsilon, 1.0) <= target)


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float) -> float:
    """The least ε at δ, to the precision of the formula; 0 where none is needed."""
    if gaussian_delta(sigma, 0.0, sensitivity) <= delta:
        return 0.0
    return _least(lambda epsilon: gaussian_delta(sigma, epsilon, sensitivity) <= delta)


def _least(enough: Callable[[float], bool]) -> float:
    """The least positive double that is enough, where all larger ones are."""
    high = 1.0
    while not enough(high):
        high *= 2
    while enough(high / 2):
        high /= 2
    low = high / 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def log_normal(x: float) -> float:
    """ln Φ(x); for x < −30, where Φ leaves the doubles, by its asymptotic series (DLMF 7.12.1)."""
    if x >= -30:
        return math.log(math.erfc(-x / math.sqrt(2)) / 2)
    series = 1 - 1 / x**2 + 3 / x**4 - 15 / x**6 + 105 / x**8
    return -(x**2) / 2 - math.log(-x * math.sqrt(2 * math.pi)) + math.log(series)
