"""The integers that clipped updates and noise become with client-level privacy (``client_level``).

**The grid.** Updates become vectors z ∈ ℤᵈ with ‖z‖₂ ≤ √(Δ² − 4h²). That is checked on the integers themselves, so no
rounding, no dither and no hostile float can exceed it. Δ is a power of two, at least

- 4√d: rounding up or down at random, without bias, adds at most d/4 to ‖z‖² on average. The scale of the values
  leaves that much room, L² = Δ² − 4h² − d/4 − 6√(Δ² + d), so that a decoded sum moves by S·√(Δ² − 4h²)/L at most, 1 %
  more than S;
- 2048, 2048/σ, and 4√K/σ for K clients: a share of the noise has then a standard deviation of at least 4 units, and
  discrete noise is as good as the continuous noise of the accounting (below).

The unit is γ = S/L. There is room in ℤ₂³² for the sum: n clients give at most nΔ in a coordinate, and the noise is
sub-Gaussian, so that a coordinate wraps with probability 2·exp(−(2³¹ − nΔ)²/2V) at most, for the worst of all
updates. A sum that wraps is wrong, and as private as before. Values and noise must be on one grid (a coarser noise
would leave the lower bits bare), and a coarser grid for both would cost accuracy: at Δ = √d/2 the rounding is as long
as the update.

**The noise.** n clients were to upload, and a fraction ρ of them may drop out. Each adds N_ℤ(0, V₁) to every
coordinate, V₁ = (σ²Δ² + 9)/((1 − ρ)n). The sum over s of them has the variance V = s·V₁, and counts as a Gaussian with
the noise multiplier √(V − 9)/Δ: at least σ for s ≥ (1 − ρ)n, less where fewer came. If all stay, V does not depend on
n. Where n is to stay secret, it must not show in the noise of a round that some dropped out of: (n − s)·V₁ is then
added by everybody who sums (``fill_up``), from what the ledger tells and the models do not.

**Why that is exact.** Take the continuous mechanism y = z + N(0, V − 9), and round each coordinate to an integer at
random, with N_ℤ(y, 9). Rounding is post-processing, under sampling too. By Poisson's summation formula a result t has
the probability N(t − z; V)·(1 ± η(3))⁻¹ (``discrete`` has N and η), and so has the sum of the discrete shares, up to
a factor whose logarithm is ``sum_log_ratio``. So whatever (ε, δ) the accountant gives for the continuous mechanism
holds here, except for ``slack``: below 10⁻⁵⁰ in both for any model and number of clients, which a double cannot add.
Reduction modulo 2³² is post-processing.

**Tracking a quantile.** One more coordinate holds +h if ‖Δw‖₂ ≤ S, −h if not. The neighbour of an update is an update
of zeros, which votes +h, or no upload at all. So the votes of two neighbours are up to 2h apart, and the two uploads at
most √(Δ² − 4h² + 4h²) = Δ: the σ of the round covers both. The vote's own budget is h = min(σΔ/2σ_b, Δ/4): the number
of updates below S is told with noise of the standard deviation σ_b, or more, at the price of a smaller room for
updates. Andrew et al. 2021, theorem 1, reserve h² only: their neighbour lacks the client, vote and all.

**Rates.** m more coordinates carry what clients measured: a rate r in [0, 1], such as an accuracy, becomes 2r − 1 times
e, rounded at random, from −e to e. A client that measured nothing sends 0, as if it had said 1/2. So do both neighbours
of an update, the absent client as well as the update of zeros. The rates of an upload are √m·e at most from theirs, and
‖z‖² ≤ Δ² − 4h² − m·e² keeps the whole within Δ: √(Δ² − 4h² − m·e² + 4h² + m·e²). Rates in [0, e] instead would be as
far from 0, at half the signal. In a round that trains, all rates together take a twentieth of Δ², which makes the noise
of the update 2.6 % larger; the sum of n clients then tells the mean of a rate with noise of σ·√(20·m)/2n. A round that
only evaluates has the same Δ, so that it costs what others cost, and leaves all of Δ² to the rates: σ·√m/2n.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from fedgrove.common.errors import InvalidInput
from fedgrove.node.masking.limits import Limits
from fedgrove.node.privacy.accountant import GaussianRelease
from fedgrove.node.privacy.discrete import discrete_gaussian, sum_log_ratio
from fedgrove.node.privacy.settings import ClientLevelSettings

_OF_RATES = 20  # rates take this part of Δ² where there is an update as well
_MOST_VOTE = 4  # a vote is at most this part of Δ, which leaves three quarters of Δ² to the update
_SMOOTHING = 9  # variance of the random rounding in the proof
_STEPS = 1024  # a noise multiplier is rounded down to this many parts of σ, so that rounds with equal losses are equal


@dataclass(frozen=True)
class Grid:
    """How one round's updates and noise become integers; a function of public values, see ``RoundTerms``.

    Attributes
    ----------
    parameters : int
        d.
    clip : float
        S.
    noise_multiplier : float
        σ.
    sharers : int
        n, clients who were to upload.
    dropouts : Fraction
        ρ: the others give the full noise.
    sensitivity : int
        Δ, in units.
    vote : int
        h, in units; 0 without tracking.
    rates : int
        m, how many rates an upload tells.
    rate : int
        e, in units.
    """

    parameters: int
    clip: float
    noise_multiplier: float
    sharers: int
    dropouts: Fraction
    sensitivity: int
    vote: int
    rates: int = 0
    rate: int = 0

    @property
    def length(self) -> int:
        """Number of words of an upload: the update's, the vote and the rates."""
        return self.parameters + (self.vote > 0) + self.rates

    @property
    def unit(self) -> float:
        """γ, the value of one unit."""
        reserve = 0.25 * self.parameters + 6 * math.sqrt(self.sensitivity**2 + self.parameters)
        return self.clip / math.sqrt(self.max_squares - reserve)

    @property
    def max_squares(self) -> int:
        """Δ² − 4h² − m·e², the largest ‖z‖² of an update: votes of neighbours are up to 2h apart, and each rate e."""
        return self.sensitivity**2 - 4 * self.vote**2 - self.rates * self.rate**2

    @property
    def reach(self) -> float:
        """How far, in L2 norm, one client can move the decoded sum: S and at most 1 % of S or, with tracking, 2 %."""
        return self.unit * math.sqrt(self.max_squares)

    @property
    def needed(self) -> int:
        """k = ⌈(1 − ρ)n⌉: the number of clients that give the full noise, or a little more."""
        return max(1, math.ceil(self.sharers * (1 - self.dropouts)))

    @property
    def share_variance(self) -> Fraction:
        """V₁, of one client's noise, in units²; exact. n·V₁ does not depend on n."""
        full = Fraction(self.noise_multiplier) ** 2 * self.sensitivity**2 + _SMOOTHING
        return full / (self.sharers * (1 - self.dropouts))

    def noise_deviation(self, shares: int) -> float:
        """Standard deviation of the noise of this many clients in a coordinate of the decoded sum."""
        return self.unit * math.sqrt(shares * self.share_variance)

    def multiplier_of(self, shares: int) -> float:
        """The noise multiplier of this many clients' noise: √(V − 9)/Δ, rounded down to 1024ths of σ."""
        excess = max(shares * self.share_variance - _SMOOTHING, Fraction(0))
        full = Fraction(self.noise_multiplier) ** 2 * self.sensitivity**2
        return math.isqrt(math.floor(excess / full * _STEPS**2)) / _STEPS * self.noise_multiplier

    def release(self, shares: int, rate: float) -> GaussianRelease:
        """Release of the round, for the accountant.

        Parameters
        ----------
        shares : int
            Clients whose noise is in the sum, less those who may collude: each knows its own share.
        rate : float
            The probability with which a client was drawn, where nobody learns who was; else 1.
        """
        return GaussianRelease(self.multiplier_of(shares), rate)

    def limits(self, uploads: int, shares: int) -> Limits:
        """Largest sum of honest uploads with their shares of noise; more has a probability below 2⁻³⁹.

        A word of the noise is sub-Gaussian: it exceeds √(2·ln 2·b·V) with a probability of 2⁻ᵇ at most, either way. The
        square of the noise's length is V times a χ² variable with d degrees of freedom, which exceeds d + 2√(dx) + 2x
        with a probability of e⁻ˣ at most (Laurent and Massart 2000, lemma 1); here x = 28 > 40·ln 2.
        """
        variance, d = math.ceil(shares * self.share_variance), self.parameters
        word = self._largest_noise(shares)
        length = math.isqrt(variance * (d + 2 * (math.isqrt(28 * d) + 1) + 2 * 28)) + 1
        longest = uploads * (math.isqrt(self.max_squares) + 1)
        last = uploads * self.vote + word if self.vote else None
        return Limits(longest + word, last, (longest + length) ** 2)

    def rate_limit(self, uploads: int, shares: int) -> int:
        """Largest word that a rate of honest uploads adds up to, either way, with their noise; likewise."""
        return uploads * self.rate + self._largest_noise(shares)

    def _largest_noise(self, shares: int) -> int:
        variance = math.ceil(shares * self.share_variance)
        return math.isqrt(variance * 7 * ((2 * self.length).bit_length() + 40) // 5) + 1  # 2·ln 2 < 7/5

    def wrap_probability(self, shares: int) -> float:
        """Bound on the probability that a coordinate of the sum of this many clients leaves ±2³¹."""
        room = (1 << 31) - shares * self.sensitivity
        if room <= 0:
            return 1.0
        return min(1.0, 2 * self.length * math.exp(-(room**2) / 2 / float(shares * self.share_variance)))

    def slack(self, shares: int) -> tuple[float, float]:
        """Addition of discreteness and finite tables to ε, and to δ for an ε of 1 (multiply by (1 + e^ε)/3.7)."""
        rounding = 2.001 * math.exp(-2 * math.pi**2 * _SMOOTHING)
        ratio = self.length * (sum_log_ratio(self.share_variance, shares) + rounding)
        distance = self.length * shares * discrete_gaussian(self.share_variance).distance
        return 2 * ratio, 3.8 * distance


@dataclass(frozen=True)
class RoundTerms:
    """One round: a function of public values.

    Attributes
    ----------
    number : int
        From 1.
    parameters : int
        d, of the whole upload.
    clip : float
        S of the round.
    clients : int
        K, who may be drawn.
    rate : float
        Probability with which each is.
    sharers : int
        n, clients on the round's list of shares: those who are to upload.
    rates : int
        m, how many rates an upload tells.
    trains : bool
        Else the round has no updates, and only tells rates.
    """

    settings: ClientLevelSettings
    number: int
    parameters: int
    clip: float
    clients: int
    rate: float
    sharers: int
    rates: int = 0
    trains: bool = True

    @cached_property
    def grid(self) -> Grid:
        """The integers of its uploads; coordinator, clients and auditor compute the same ones.

        Raises
        ------
        InvalidInput
            The sum of n updates and their noise could leave the ring, with a probability above 10⁻⁹.
        """
        settings, sigma, size = self.settings, self.settings.noise_multiplier_of(self.number), self.parameters
        least = max(4 * math.sqrt(size), 2048, 2048 / sigma, 4 * math.sqrt(max(self.clients, self.sharers)) / sigma)
        sensitivity = 1 << math.ceil(least - 1).bit_length()
        vote = _vote(settings, sigma, sensitivity, self.clients * self.rate) if settings.clipping == "quantile" else 0
        grid = Grid(size, self.clip, sigma, self.sharers, Fraction(str(settings.dropouts)), sensitivity, vote)
        if self.rates:
            rate = math.isqrt(sensitivity**2 // (self.rates * (_OF_RATES if self.trains else 1)))
            grid = replace(grid, rates=self.rates, rate=rate)
        if not self.trains:
            grid = replace(grid, parameters=0, vote=0)
        if grid.wrap_probability(self.sharers) > 1e-9:
            raise InvalidInput(
                f"the sum of {self.sharers} updates of {size} parameters with noise multiplier {sigma:g} does not fit "
                f"into 32 bits: draw fewer clients per round"
            )
        return grid


def _vote(settings: ClientLevelSettings, sigma: float, sensitivity: int, expected: float) -> int:
    noise = settings.quantile_noise or expected / 20
    return max(1, min(math.floor(sigma * sensitivity / (2 * noise)), sensitivity // _MOST_VOTE))
