"""Plan of a budget before training: σ, the noise relative to an update, and ε by observer.

The signal is taken at its best: every update has the length S and all point the same way, so that their mean has the
length S, too. The noise in the mean of m has the length σS√d/m. S cancels out, as long as updates are at least as long.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from msgspec import Meta

from fedgrove.common.settings import Rate, Settings
from fedgrove.node.privacy.accountant import GaussianRelease, epsilon_of, noise_for, rounds_left
from fedgrove.node.privacy.local import gaussian_sigma

EARLY = 0.01
"""Share of the clients who may have spent their budget before the last round, as they are drawn more often."""


@dataclass(frozen=True)
class PlannedTraining(Settings):
    """A training to be planned.

    Attributes
    ----------
    clients : int
        K.
    rate : float
        Probability with which each is drawn in a round.
    rounds : int
        T.
    parameters : int
        d, of the whole upload.
    delta : float
        δ.
    dropouts : float
        ρ: fraction of the drawn clients whose noise may be lost without loss of privacy.
    """

    clients: Annotated[int, Meta(ge=1, le=10**9)]
    rate: Rate
    rounds: Annotated[int, Meta(ge=1, le=100_000)]
    parameters: Annotated[int, Meta(ge=1, le=10**10)]
    delta: Annotated[float, Meta(ge=1e-12, le=0.1)]
    dropouts: Annotated[float, Meta(ge=0, le=0.9)] = 0.0

    @property
    def drawn(self) -> float:
        """m, the clients that are expected in a round."""
        return self.rate * self.clients

    @property
    def participations(self) -> int:
        """Rounds in which a client takes part, at most, except for one client in a hundred."""
        return binomial_quantile(self.rounds, self.rate, 1 - EARLY)

    @property
    def average(self) -> int:
        """Rounds that an average client takes part in, rounded up."""
        return math.ceil(self.rounds * self.rate)

    @property
    def most_drawn(self) -> int:
        """Rounds that the client takes part in that is drawn most of all, or fewer, in half of all trainings."""
        return binomial_quantile(self.rounds, self.rate, 0.5 ** (1 / self.clients))

    def noise_to_signal(self, noise_multiplier: float) -> float:
        """Length of the noise in the mean over that of the mean; when nobody drops out."""
        return noise_multiplier * math.sqrt(self.parameters / (1 - self.dropouts)) / self.drawn


@dataclass(frozen=True)
class Outlook:
    """Requirements of a budget.

    Attributes
    ----------
    noise_multiplier : float
        σ.
    counted_rounds : int
        Rounds that it covers: all of them, or with public participation those that a client takes part in.
    noise_deviation : float
        Of the noise in one parameter of the mean, over S.
    noise_to_signal : float
        Length of the noise over that of the mean update, at best.
    drawn_for_one : int
        Clients to draw a round so that noise and signal are of one length.
    local_noise_to_signal : float
        The same when each client adds noise for itself, and asks nobody to add any.
    cost : Cost
        ε of that noise, towards whom; where participation is public no client goes beyond ``counted_rounds``.
    """

    noise_multiplier: float
    counted_rounds: int
    noise_deviation: float
    noise_to_signal: float
    drawn_for_one: int
    local_noise_to_signal: float
    cost: "Cost"


@dataclass(frozen=True)
class PlannedSpending:
    """ε of this many rounds, and the number of rounds left in a budget (None without a budget)."""

    rounds: int
    epsilon: float
    rounds_left: int | None


@dataclass(frozen=True)
class Cost:
    """Cost of a training: towards observers of models only, and towards readers of the ledger.

    Attributes
    ----------
    models : Spent
        All rounds, for somebody who does not learn who was drawn.
    average, most_drawn : Spent
        The rounds of an average client, and of the client that is drawn most of all (in half of all trainings it is
        drawn no more often), for somebody who knows them. A ledger tells.
    own : Spent or None
        The rounds that were asked about, likewise.
    """

    models: PlannedSpending
    average: PlannedSpending
    most_drawn: PlannedSpending
    own: PlannedSpending | None = None


def outlook(training: PlannedTraining, epsilon: float, participation: str) -> Outlook:
    """Requirements of (``epsilon``, δ) for all rounds; ``participation`` as in ``ClientLevelSettings``."""
    secret = participation == "secret"
    counted = training.rounds if secret else training.participations
    sigma = noise_for(counted, training.rate if secret else 1.0, epsilon, training.delta)
    to_signal = training.noise_to_signal(sigma)
    # Locally any two updates are neighbours, at a distance of 2S; the noise of m clients adds up to √m times one's.
    local = math.sqrt(training.participations) * gaussian_sigma(epsilon, training.delta, 2.0)
    return Outlook(
        sigma,
        counted,
        to_signal / math.sqrt(training.parameters),
        to_signal,
        math.ceil(to_signal * training.drawn),
        local * math.sqrt(training.parameters / training.drawn),
        cost(training, sigma, lost=training.dropouts, most=training.rounds if secret else counted),
    )


def cost(
    training: PlannedTraining,
    noise_multiplier: float,
    participations: int | None = None,
    lost: float = 0.0,
    budget: float | None = None,
    most: int | None = None,
) -> Cost:
    """Cost of this many rounds with this noise.

    Parameters
    ----------
    noise_multiplier : float
        σ, as the terms say.
    participations : int, optional
        Rounds that a client took part in, to be reported as well.
    lost : float
        Fraction of the drawn clients that dropped out with their noise.
    budget : float, optional
        ε that must not be passed.
    most : int, optional
        No client takes part in more rounds.
    """
    share = Fraction(str(lost))
    remaining = min(Fraction(1), (1 - share) / (1 - Fraction(str(training.dropouts))))
    sigma = noise_multiplier * math.sqrt(remaining)

    def spent(rounds: int, rate: float = 1.0) -> PlannedSpending:
        releases = [GaussianRelease(sigma, rate, rounds)]
        left = None
        if budget is not None:
            left = rounds_left(releases, GaussianRelease(sigma, rate), budget, training.delta, 1_000_000)
        return PlannedSpending(rounds, epsilon_of(releases, training.delta), left)

    limit = training.rounds if most is None else most
    return Cost(
        spent(training.rounds, training.rate),
        spent(min(training.average, limit)),
        spent(min(training.most_drawn, limit)),
        None if participations is None else spent(participations),
    )


def binomial_quantile(trials: int, probability: float, level: float) -> int:
    """The least number that a binomial variable exceeds with a probability of at most 1 − ``level``."""
    if probability == 1:
        return trials
    log_odds = math.log(probability) - math.log1p(-probability)
    log_chance, below = trials * math.log1p(-probability), 0.0
    for successes in range(trials + 1):
        below += math.exp(log_chance)
        if below >= level:
            return successes
        log_chance += math.log((trials - successes) / (successes + 1)) + log_odds if successes < trials else 0.0
    return trials
