"""When drawing members by lot is the Poisson sampling that the accounting of secret participation counts on.

Each member is drawn with probability q, by itself. But a ledger takes no more than ``max_clients`` into a round, and a
round with fewer than the quorum is not held: then it depends on who else was drawn whether a client takes part, and
whether there is a sum at all reveals who was drawn. The accounting leaves out both, so they must hardly ever happen.
If the real training and the one that is accounted differ with a probability of at most τ, one that is (ε, δ)-private
makes the other (ε, δ + (1 + e^ε)·τ)-private. Here (1 + e^ε)·τ is at most a thousandth of δ, over all rounds.

It counts on members being there. A member that is away does not draw: keep well above the quorum.
"""

import math

from fedgrove.node.privacy.settings import ClientLevelSettings

_SHARE = 1e-3  # of δ


def sampling_fault(
    settings: ClientLevelSettings, rate: float, members: int, quorum: int, max_clients: int, rounds: int
) -> str:
    """Reason why a round with this many members breaks the sampling that ε assumes, in one clause; else empty.

    Parameters
    ----------
    rate : float
        q.
    members : int
        K.
    quorum, max_clients : int
        Of the ledger.
    rounds : int
        T, of the whole training.
    """
    if settings.participation != "secret" or rate >= 1:
        return ""
    others, most = members - 1, log_chance_that_matters(settings, rounds)
    if log_tail_above(others, rate, max_clients) > most:
        fault = "a round may be full (ledger.max_clients)"
    elif log_tail_below(others, rate, quorum - 1) > most:
        fault = "too few may be drawn (ledger.quorum)"
    else:
        return ""
    return f'with {members} members {fault}, which privacy.participation = "secret" rules out'


def least_max_clients(settings: ClientLevelSettings, rate: float, members: int, rounds: int) -> int:
    """The least ``ledger.max_clients`` with which no round is full, but with a chance that does not matter."""
    most = log_chance_that_matters(settings, rounds)
    low, high = math.floor(rate * (members - 1)), members  # too few, and enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if log_tail_above(members - 1, rate, middle) <= most else (middle, high)
    return high


def log_chance_that_matters(settings: ClientLevelSettings, rounds: int) -> float:
    """ln of the largest probability, of a round, that leaves (1 + e^ε)·τ within its share of δ."""
    return math.log(_SHARE * settings.delta / rounds / 2) - settings.epsilon - math.log1p(math.exp(-settings.epsilon))


def log_tail_above(trials: int, probability: float, least: int) -> float:
    """Bound on ln P(X ≥ ``least``) of a binomial X (Chernoff and Hoeffding); −∞ where that cannot be."""
    if least > trials:
        return -math.inf
    return -trials * _divergence(least / trials, probability) if least > trials * probability else 0.0


def log_tail_below(trials: int, probability: float, most: int) -> float:
    """Bound on ln P(X ≤ ``most``) of a binomial X."""
    return log_tail_above(trials, 1 - probability, trials - most) if most < trials else 0.0


def _divergence(share: float, probability: float) -> float:
    """Kullback and Leibler's divergence of two coins, in nats; ``probability`` is neither 0 nor 1."""
    heads = share * math.log(share / probability) if share else 0.0
    return heads + ((1 - share) * math.log((1 - share) / (1 - probability)) if share < 1 else 0.0)
