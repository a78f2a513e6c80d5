"""Privacy accounting of a training: ε at a δ, δ at an ε, rounds that are left, σ for a target.

Everything that was told is a list of releases. They are composed as ``dp-accounting``'s privacy loss distributions,
which round to the unfavourable side; Gaussian releases without sampling make a single Gaussian mechanism with 1/σ² =
Σ 1/σ_t² and need no library. Neighbours are two federations, one of them without some client, or with a client whose
update is zero and that measured nothing (add or remove one; replace by zero).

Sampling by VRF output below a threshold is Poisson sampling: each client is drawn independently. It amplifies privacy
only towards those who do not learn who was drawn.

Results are functions of their arguments, but computed in floating point with a library's Fourier transforms: compare
those of two machines with the tolerance ``AGREEMENT``.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, cast

from fedgrove.node.privacy.local import gaussian_delta, gaussian_epsilon, gaussian_sigma

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

AGREEMENT = 1e-6
"""Relative difference up to which two machines' ε are the same."""

_DIGITS = 4  # of a σ that is looked for
_INTERVAL = 1e-4  # privacy losses are rounded up to multiples of this
_COARSE = 8  # times that for a search: as many times faster, and ε larger by a few units of it at most
_KEPT = 64


@dataclass(frozen=True)
class GaussianRelease:
    """Sums with Gaussian noise.

    Attributes
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the sensitivity, 0 where there was none.
    rate : float
        Probability with which a client was drawn, independently of all others and in secret; 1 without sampling.
    count : int
        How many of them.
    """

    noise_multiplier: float
    rate: float = 1.0
    count: int = 1


@dataclass(frozen=True)
class PureRelease:
    """Outputs of an ε-private mechanism, such as SignDS.

    Attributes
    ----------
    epsilon : float
        ε of one.
    count : int
        How many of them.
    chance : float
        Bound on the probability of a loss of +ε, where that of −ε is smaller by e^(−ε) and no other loss but 0 occurs
        (``SignDsMechanism.chance``); 1 where nothing but ε is known.
    """

    epsilon: float
    count: int = 1
    chance: float = 1.0


Release = GaussianRelease | PureRelease


def epsilon_of(releases: Iterable[Release], delta: float) -> float:
    """The least ε with which everything released is (ε, ``delta``)-private; infinite where no noise was added."""
    spent = _merged(releases)
    if not spent:
        return 0.0
    if _unprotected(spent):
        return math.inf
    single = _single_gaussian(spent)
    if single:
        return gaussian_epsilon(single, delta, 1.0)
    return float(_composed(spent).get_epsilon_for_delta(delta))


def delta_of(releases: Iterable[Release], epsilon: float) -> float:
    """The least δ with which everything released is (``epsilon``, δ)-private."""
    spent = _merged(releases)
    if not spent:
        return 0.0
    if _unprotected(spent):
        return 1.0
    single = _single_gaussian(spent)
    if single:
        return gaussian_delta(single, epsilon, 1.0)
    return float(_composed(spent).get_delta_for_epsilon(epsilon))


def spending(releases: Iterable[Release], epsilon: float, delta: float) -> tuple[float, float]:
    """``epsilon_of`` at ``delta`` and ``delta_of`` at ``epsilon``, for the price of one."""
    spent = _merged(releases)
    if not spent or _unprotected(spent) or _single_gaussian(spent):
        return epsilon_of(spent, delta), delta_of(spent, epsilon)
    composed = _composed(spent)
    return float(composed.get_epsilon_for_delta(delta)), float(composed.get_delta_for_epsilon(epsilon))


def affords(releases: Iterable[Release], epsilon: float, delta: float) -> bool:
    """Whether everything released is (``epsilon``, ``delta``)-private. A client asks before it lets itself be drawn."""
    return delta_of(releases, epsilon) <= delta


def rounds_left(spent: Iterable[Release], each: Release, epsilon: float, delta: float, limit: int) -> int:
    """How many more releases like ``each`` the budget affords, ``limit`` at most."""
    before = tuple(spent)

    def fits(count: int) -> bool:
        return affords([*before, replace(each, count=count * each.count)], epsilon, delta)

    low, high = 0, 1
    while high <= limit and fits(high):
        low, high = high, 2 * high
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def noise_for(rounds: int, rate: float, epsilon: float, delta: float) -> float:
    """The least σ, rounded up to four digits, with which this many rounds are (ε, δ)-private."""
    enough = math.sqrt(rounds) * gaussian_sigma(epsilon, delta, 1.0)  # without sampling
    if rate < 1:
        enough = _search(lambda sigma: _excess(GaussianRelease(sigma, rate, rounds), epsilon, delta), enough)
    step = 10.0 ** (math.floor(math.log10(enough)) - _DIGITS + 1)
    digits = math.ceil(enough / step - 1e-3)  # what a search is off by
    while not affords([GaussianRelease(digits * step, rate, rounds)], epsilon, delta):
        digits += 1
    return float(f"{digits * step:.{_DIGITS}g}")


def _excess(release: GaussianRelease, epsilon: float, delta: float) -> float:
    return float(_composed((release,), _COARSE).get_epsilon_for_delta(delta)) - epsilon


def _search(excess: Callable[[float], float], enough: float) -> float:
    """Where ``excess``, which falls, is zero, to within 10⁻⁶; below ``enough``."""
    from scipy import optimize  # heavy, and only plans need it

    low = enough / 2
    while excess(low) <= 0:
        low, enough = low / 2, low
    return float(cast(Any, optimize).brentq(excess, low, enough, rtol=1e-6))  # scipy has no annotations


def _merged(releases: Iterable[Release]) -> tuple[Release, ...]:
    """Equal releases as one with their number, in a fixed order."""
    counts: Counter[Release] = Counter()
    for release in releases:
        counts[replace(release, count=1)] += release.count
    merged = (replace(release, count=count) for release, count in counts.items() if count)
    return tuple(sorted(merged, key=repr))


def _unprotected(spent: Sequence[Release]) -> bool:
    return any(isinstance(release, GaussianRelease) and release.noise_multiplier == 0 for release in spent)


def _single_gaussian(spent: Sequence[Release]) -> float | None:
    """The noise multiplier that unsampled Gaussian releases are worth together; None when there are others."""
    gaussian = [release for release in spent if isinstance(release, GaussianRelease) and release.rate == 1]
    if len(gaussian) < len(spent):
        return None
    return 1 / math.sqrt(math.fsum(release.count / release.noise_multiplier**2 for release in gaussian))


def _composed(spent: tuple[Release, ...], coarse: int = 1) -> "PrivacyLossDistribution":
    """The privacy loss distribution of all releases."""
    interval = _INTERVAL * coarse * _spread(spent)
    parts = [_distribution(replace(release, count=1), interval).self_compose(release.count) for release in spent]
    return reduce(lambda first, second: first.compose(second), parts)


def _spread(spent: Sequence[Release]) -> int:
    """A power of two about 1/4σ² for a σ below 1/2, or ε/10 above 10: losses so large need no finer steps."""
    sizes = (
        1 / (2 * release.noise_multiplier) ** 2 if isinstance(release, GaussianRelease) else release.epsilon / 10
        for release in spent
    )
    return 1 << max(0, math.floor(math.log2(max(sizes))))


@lru_cache(maxsize=_KEPT)
def _distribution(release: Release, interval: float) -> "PrivacyLossDistribution":
    # Imported here, as it takes a second and the other commands do without.
    from dp_accounting.pld import privacy_loss_distribution as distributions

    if isinstance(release, PureRelease):
        one, other = _three_points(release)
        return distributions.from_two_probability_mass_functions(other, one, value_discretization_interval=interval)
    return distributions.from_gaussian_mechanism(
        release.noise_multiplier, sampling_prob=release.rate, value_discretization_interval=interval
    )


def _three_points(release: PureRelease) -> tuple[dict[int, float], dict[int, float]]:
    """ln of the probabilities of the losses +ε, −ε and 0 under two inputs; a of +ε is at most 1/(1 + e^(−ε))."""
    likely = min(math.log(release.chance), -math.log1p(math.exp(-release.epsilon)))
    unlikely = likely - release.epsilon
    rest = 1 - math.exp(likely) - math.exp(unlikely)
    same = {2: math.log(rest)} if rest > 0 else {}
    return {0: likely, 1: unlikely} | same, {0: unlikely, 1: likely} | same
