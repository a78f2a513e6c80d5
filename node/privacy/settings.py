"""Privacy terms of a federation, as plain checked values (no heavy import here)."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import ClassVar, Literal

MAX_EPSILON = 1000.0
MAX_BUDGET = 1e6
MIN_DELTA = 1e-12
MIN_NOISE = 0.01
MAX_NOISE = 1000.0
MIN_CLIP = 1e-6
MAX_CLIP = 1e6
CLIP_RANGE = 10.0
"""S follows a quantile from its first value over this to its first value times this."""
MAX_DIMENSIONS = 1024
LEAST_RATED = 300
"""Clients that must be drawn where they tell rates under client-level privacy: noise drowns what fewer tell."""


@dataclass(frozen=True)
class ClientLevelSettings:
    """Client-level differential privacy (Geyer et al. 2017): clipped updates, noise in their sum, a budget.

    Attributes
    ----------
    epsilon, delta : float
        The budget of the whole training; nobody takes part in a round that would exceed it.
    participation : str
        The assumption behind ε. ``public``: everybody may know who was drawn, as the ledger shows; a client spends in
        the rounds that it takes part in. ``secret``: only the models are seen, and all clients spend in every round,
        far less where few are drawn (amplification by Poisson sampling); ε towards readers of the ledger is larger, and
        is stated as well.
    noise_multipliers : tuple of float
        σ of the first and later phases: the noise in the sum has the standard deviation σS.
    sampling_rates : tuple of float
        Sampling rates of the phases; empty keeps the federation's rate in all rounds.
    phases : tuple of int
        First rounds of the second and later phases, ascending.
    clipping : str
        How S follows the updates. ``fixed``; ``quantile``: S tracks a quantile of the norms, privately; ``median``: the
        paper's, of the norms themselves, which no guarantee covers; only for simulations.
    clip : float
        S, or with ``quantile`` its first value: largest L2 norm of a whole update. S then stays within a tenth of it
        and ten times it, whatever the votes.
    quantile : float
        Fraction of the updates that should stay unclipped.
    quantile_rate : float
        η: ln S moves by η times the distance from that fraction in a round.
    quantile_noise : float
        Standard deviation of the noise in the number of updates below S; 0 uses a twentieth of the clients drawn.
    dropouts : float
        Fraction of the drawn clients that may drop out, once their noise is agreed, without loss of privacy; the noise
        is larger by 1/(1 − dropouts) in variance when none does.
    """

    mechanism: ClassVar[str] = "client"

    epsilon: float = 8.0
    delta: float = 1e-5
    participation: Literal["public", "secret"] = "public"
    noise_multipliers: tuple[float, ...] = (1.0,)
    sampling_rates: tuple[float, ...] = ()
    phases: tuple[int, ...] = ()
    clipping: Literal["fixed", "quantile", "median"] = "fixed"
    clip: float = 1.0
    quantile: float = 0.5
    quantile_rate: float = 0.2
    quantile_noise: float = 0.0
    dropouts: float = 0.0

    def __post_init__(self) -> None:
        _check(1e-3 <= self.epsilon <= MAX_EPSILON, "epsilon", f"from 0.001 to {MAX_EPSILON:g}", self.epsilon)
        _check(MIN_DELTA <= self.delta <= 0.1, "delta", f"from {MIN_DELTA:g} to 0.1", self.delta)
        _check(self.participation in ("public", "secret"), "participation", "public or secret", self.participation)
        later = len(self.phases)
        fine = len(self.noise_multipliers) == later + 1
        _check(fine, "noise_multipliers", f"{later + 1} values, one per phase", self.noise_multipliers)
        fine = all(MIN_NOISE <= value <= MAX_NOISE for value in self.noise_multipliers)
        _check(fine, "noise_multipliers", f"each from {MIN_NOISE:g} to {MAX_NOISE:g}", self.noise_multipliers)
        fine = len(self.sampling_rates) in (0, later + 1) and all(0 < rate <= 1 for rate in self.sampling_rates)
        _check(fine, "sampling_rates", f"none or {later + 1} values above 0 and at most 1", self.sampling_rates)
        fine = all(before < after for before, after in pairwise((1, *self.phases)))
        _check(fine, "phases", "whole numbers above 1, ascending", self.phases)
        allowed = ("fixed", "quantile", "median")
        _check(self.clipping in allowed, "clipping", f"one of {', '.join(allowed)}", self.clipping)
        _check(MIN_CLIP <= self.clip <= MAX_CLIP, "clip", "from 0.000001 to 1000000", self.clip)
        _check(0 < self.quantile < 1, "quantile", "above 0 and below 1", self.quantile)
        _check(0 < self.quantile_rate <= 10, "quantile_rate", "above 0 and at most 10", self.quantile_rate)
        fine = self.quantile_noise == 0 or 0.1 <= self.quantile_noise <= 1e6
        _check(fine, "quantile_noise", "0 (automatic) or from 0.1 to 1000000", self.quantile_noise)
        _check(0 <= self.dropouts <= 0.9, "dropouts", "from 0 to 0.9", self.dropouts)

    def noise_multiplier_of(self, number: int) -> float:
        """σ of a round, counted from 1."""
        return self.noise_multipliers[bisect_right(self.phases, number)]

    def sampling_rate_of(self, number: int, otherwise: float) -> float:
        """The sampling rate of a round, counted from 1; ``otherwise`` is the federation's."""
        return self.sampling_rates[bisect_right(self.phases, number)] if self.sampling_rates else otherwise


@dataclass(frozen=True)
class LocalSettings:
    """Local differential privacy: each client clips its update and adds Gaussian noise before it leaves.

    Attributes
    ----------
    epsilon, delta : float
        Of one upload, for any two updates. MindSpore's defaults, 50 and 0.01, promise next to nothing.
    clip : float
        C: largest L2 norm of a whole update.
    budget : float
        ε at δ that all uploads of a client may cost together; it does not draw beyond it. 0 sets no limit.
    """

    mechanism: ClassVar[str] = "local"

    epsilon: float = 50.0
    delta: float = 0.01
    clip: float = 1.0
    budget: float = 0.0

    def __post_init__(self) -> None:
        # e^100 times the sampler's distance of 2^-230 a parameter is still nothing.
        _check(1e-3 <= self.epsilon <= 100, "epsilon", "from 0.001 to 100", self.epsilon)
        _check(MIN_DELTA <= self.delta <= 0.1, "delta", f"from {MIN_DELTA:g} to 0.1", self.delta)
        _check(MIN_CLIP <= self.clip <= MAX_CLIP, "clip", "from 0.000001 to 1000000", self.clip)
        _check_budget(self.budget, self.epsilon)


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
        h, dimensions uploaded; 0 uses the largest h, at most 50, whose expected fraction from S_k is ``share``.
    share : float
        E[ν]/h that an automatic h keeps to.
    step : float
        Step of a dimension in round 1 when all clients vote for it.
    step_decay : float
        Factor per round: round t moves step · decay^(t − 1).
    budget : float
        ε at ``delta`` that all uploads of a client may cost together; it does not draw beyond it. 0 sets no limit.
    delta : float
        δ at which several uploads are counted; a single upload needs none.
    """

    mechanism: ClassVar[str] = "signds"

    epsilon: float = 100.0
    top: float = 0.01
    dimensions: int = 0
    share: float = 0.6
    step: float = 1.0
    step_decay: float = 1.0
    budget: float = 0.0
    delta: float = 1e-5

    def __post_init__(self) -> None:
        _check(1e-3 <= self.epsilon <= MAX_EPSILON, "epsilon", f"from 0.001 to {MAX_EPSILON:g}", self.epsilon)
        _check(0 < self.top <= 0.5, "top", "above 0 and at most 0.5", self.top)
        allowed = f"0 (automatic) or a whole number up to {MAX_DIMENSIONS}"
        _check(0 <= self.dimensions <= MAX_DIMENSIONS, "dimensions", allowed, self.dimensions)
        _check(0 < self.share <= 1, "share", "above 0 and at most 1", self.share)
        _check(0 < self.step <= 1e6, "step", "above 0 and at most 1000000", self.step)
        _check(0 < self.step_decay <= 1, "step_decay", "above 0 and at most 1", self.step_decay)
        _check_budget(self.budget, self.epsilon)
        _check(MIN_DELTA <= self.delta <= 0.1, "delta", f"from {MIN_DELTA:g} to 0.1", self.delta)

    def step_of(self, number: int) -> float:
        """The step of a round, counted from 1; multiplied out, as ``pow`` differs between machines in the last bit."""
        return math.prod(repeat(self.step_decay, number - 1), start=self.step)


PrivacySettings = ClientLevelSettings | LocalSettings | SignDsSettings
MECHANISMS: dict[str, type[PrivacySettings]] = {
    kind.mechanism: kind for kind in (ClientLevelSettings, LocalSettings, SignDsSettings)
}
"""Settings of a federation's ``[privacy]`` table, by its ``mechanism``; ``none`` has none."""


def _check_budget(budget: float, epsilon: float) -> None:
    allowed = f"0 (no limit) or from {epsilon:g}, the cost of one upload, to {MAX_BUDGET:g}"
    _check(budget == 0 or epsilon <= budget <= MAX_BUDGET, "budget", allowed, budget)


def _check(fine: bool, name: str, allowed: str, value: object) -> None:
    if not fine:
        raise ValueError(f"{name} must be {allowed}, not {value!r}")
