"""Privacy terms of a federation, as plain checked values (no heavy import here)."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fedgrove.common.settings import Rate, Settings

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
class ClientLevelSettings(Settings):
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

    epsilon: Annotated[float, Meta(ge=1e-3, le=MAX_EPSILON)] = 8.0
    delta: Annotated[float, Meta(ge=MIN_DELTA, le=0.1)] = 1e-5
    participation: Literal["public", "secret"] = "public"
    noise_multipliers: tuple[Annotated[float, Meta(ge=MIN_NOISE, le=MAX_NOISE)], ...] = (1.0,)
    sampling_rates: tuple[Rate, ...] = ()
    phases: tuple[int, ...] = ()
    clipping: Literal["fixed", "quantile", "median"] = "fixed"
    clip: Annotated[float, Meta(ge=MIN_CLIP, le=MAX_CLIP)] = 1.0
    quantile: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    quantile_rate: Annotated[float, Meta(gt=0, le=10)] = 0.2
    quantile_noise: float = 0.0
    dropouts: Annotated[float, Meta(ge=0, le=0.9)] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        later = len(self.phases)
        fine = len(self.noise_multipliers) == later + 1
        self.require(fine, "noise_multipliers", f"{later + 1} values, one per phase")
        fine = len(self.sampling_rates) in (0, later + 1)
        self.require(fine, "sampling_rates", f"none or {later + 1} values above 0 and at most 1")
        fine = all(before < after for before, after in pairwise((1, *self.phases)))
        self.require(fine, "phases", "whole numbers above 1, ascending")
        fine = self.quantile_noise == 0 or 0.1 <= self.quantile_noise <= 1e6
        self.require(fine, "quantile_noise", "0 (automatic) or from 0.1 to 1000000")

    def noise_multiplier_of(self, number: int) -> float:
        """σ of a round, counted from 1."""
        return self.noise_multipliers[bisect_right(self.phases, number)]

    def sampling_rate_of(self, number: int, otherwise: float) -> float:
        """The sampling rate of a round, counted from 1; ``otherwise`` is the federation's."""
        return self.sampling_rates[bisect_right(self.phases, number)] if self.sampling_rates else otherwise


@dataclass(frozen=True)
class LocalSettings(Settings):
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

    # e^100 times the sampler's distance of 2^-230 a parameter is still nothing.
    epsilon: Annotated[float, Meta(ge=1e-3, le=100)] = 50.0
    delta: Annotated[float, Meta(ge=MIN_DELTA, le=0.1)] = 0.01
    clip: Annotated[float, Meta(ge=MIN_CLIP, le=MAX_CLIP)] = 1.0
    budget: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_budget(self)


@dataclass(frozen=True)
class SignDsSettings(Settings):
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

    epsilon: Annotated[float, Meta(ge=1e-3, le=MAX_EPSILON)] = 100.0
    top: Annotated[float, Meta(gt=0, le=0.5)] = 0.01
    dimensions: Annotated[
        int, Meta(ge=0, le=MAX_DIMENSIONS, description=f"0 (automatic) or a whole number up to {MAX_DIMENSIONS}")
    ] = 0
    share: Rate = 0.6
    step: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    step_decay: Rate = 1.0
    budget: float = 0.0
    delta: Annotated[float, Meta(ge=MIN_DELTA, le=0.1)] = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_budget(self)

    def step_of(self, number: int) -> float:
        """The step of a round, counted from 1; multiplied out, as ``pow`` differs between machines in the last bit."""
        return math.prod(repeat(self.step_decay, number - 1), start=self.step)


PrivacySettings = ClientLevelSettings | LocalSettings | SignDsSettings
MECHANISMS: dict[str, type[PrivacySettings]] = {
    kind.mechanism: kind for kind in (ClientLevelSettings, LocalSettings, SignDsSettings)
}
"""Settings of a federation's ``[privacy]`` table, by its ``mechanism``; ``none`` has none."""


def _check_budget(settings: LocalSettings | SignDsSettings) -> None:
    least = settings.epsilon
    allowed = f"0 (no limit) or from {least:g}, the cost of one upload, to {MAX_BUDGET:g}"
    settings.require(settings.budget == 0 or least <= settings.budget <= MAX_BUDGET, "budget", allowed)
