"""What the members of a federation agree on about privacy, as plain checked values (no heavy import here)."""

import math
from dataclasses import dataclass
from itertools import repeat

MAX_EPSILON = 1000.0
MAX_DIMENSIONS = 1024


@dataclass(frozen=True)
class SignDsSettings:
    """SignDS: each client uploads a sign and h dimensions of its update, chosen under ε-local differential privacy.

    Attributes
    ----------
    epsilon : float
        ε of one upload. MindSpore's default, 100, is no privacy to speak of.
    top : float
        Fraction of the parameters that make up S_k, the top dimensions.
    dimensions : int
        h, dimensions uploaded; 0 takes the largest h, at most 50, of which the fraction ``share`` is expected from S_k.
    share : float
        E[ν]/h that an automatic h keeps to.
    step : float
        What a dimension moves in round 1 when all clients vote for it.
    step_decay : float
        Factor a round: round t moves step · decay^(t − 1).
    """

    epsilon: float = 100.0
    top: float = 0.01
    dimensions: int = 0
    share: float = 0.6
    step: float = 1.0
    step_decay: float = 1.0

    def __post_init__(self) -> None:
        _check(1e-3 <= self.epsilon <= MAX_EPSILON, "epsilon", f"from 0.001 to {MAX_EPSILON:g}", self.epsilon)
        _check(0 < self.top <= 0.5, "top", "above 0 and at most 0.5", self.top)
        allowed = f"0 (automatic) or a whole number up to {MAX_DIMENSIONS}"
        _check(0 <= self.dimensions <= MAX_DIMENSIONS, "dimensions", allowed, self.dimensions)
        _check(0 < self.share <= 1, "share", "above 0 and at most 1", self.share)
        _check(0 < self.step <= 1e6, "step", "above 0 and at most 1000000", self.step)
        _check(0 < self.step_decay <= 1, "step_decay", "above 0 and at most 1", self.step_decay)

    def step_of(self, round: int) -> float:
        """The step of a round, counted from 1; multiplied out, as ``pow`` differs between machines in the last bit."""
        return math.prod(repeat(self.step_decay, round - 1), start=self.step)


def _check(fine: bool, name: str, allowed: str, value: object) -> None:
    if not fine:
        raise ValueError(f"{name} must be {allowed}, not {value!r}")
