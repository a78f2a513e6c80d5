"""Who takes part in which round, and how many rounds a privacy budget affords: functions of the scenario alone.

With client-level privacy clients are drawn as on the ledger, each by itself with the round's probability, since the
accounting counts on that (Poisson sampling); how many come varies. All other scenarios draw a fixed number. Where
everybody learns who was drawn, a client spends in the rounds that it takes part in, and is not drawn once it cannot
afford the next. Where that is secret all clients spend in every round, and training ends for all at once.
"""

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, pairwise

import numpy as np

from fedgrove.node.privacy.accountant import GaussianRelease, affords, rounds_left
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.scenario.scenario import Scenario


def draws(scenario: Scenario, rounds: int = 0) -> Iterator[tuple[int, ...]]:
    """The clients of rounds 1, 2, …, ascending in each, until the scenario or what clients may spend is at its end.

    ``rounds`` is their number, where that is not the scenario's.
    """
    rounds = rounds or scenario.rounds
    if not isinstance(scenario.privacy, ClientLevelSettings):
        yield from map(scenario.draw, range(1, rounds + 1))
    elif scenario.privacy.participation == "secret":
        for number in range(1, _affordable(scenario.privacy, scenario.federation.sampling_rate, rounds) + 1):
            yield _clients(
                _lots(scenario, number) < scenario.privacy.sampling_rate_of(number, scenario.federation.sampling_rate)
            )
    else:
        yield from _while_clients_afford(scenario, scenario.privacy, rounds)


def draw_of(scenario: Scenario, number: int) -> tuple[int, ...] | None:
    """The clients of one round, which may be behind the scenario's last; None where they cannot afford it."""
    return next(islice(draws(scenario, number), number - 1, None), None)


def rate_of(scenario: Scenario, number: int) -> float:
    """Share of the clients that a round draws; on average where they are drawn one by one."""
    if isinstance(scenario.privacy, ClientLevelSettings):
        return scenario.privacy.sampling_rate_of(number, scenario.federation.sampling_rate)
    return scenario.drawn / scenario.clients


def last_round(scenario: Scenario) -> int:
    """The round after which the scenario's training ends: its last, or the last that is affordable."""
    return sum(1 for _ in draws(scenario)) if isinstance(scenario.privacy, ClientLevelSettings) else scenario.rounds


@lru_cache(maxsize=64)
def _affordable(settings: ClientLevelSettings, rate: float, rounds: int) -> int:
    """Number of these rounds that the budget affords, when nobody learns who is drawn; each with σ as agreed."""
    spent: list[GaussianRelease] = []
    starts = [start for start in (1, *settings.phases) if start <= rounds]
    for start, end in pairwise((*starts, rounds + 1)):
        each = GaussianRelease(settings.noise_multiplier_of(start), settings.sampling_rate_of(start, rate))
        count = rounds_left(spent, each, settings.epsilon, settings.delta, end - start)
        if count < end - start:
            return start - 1 + count
        spent.append(GaussianRelease(each.noise_multiplier, each.rate, count))
    return rounds


def _while_clients_afford(scenario: Scenario, settings: ClientLevelSettings, rounds: int) -> Iterator[tuple[int, ...]]:
    sigmas = sorted(set(settings.noise_multipliers))
    taken = np.zeros((len(sigmas), scenario.clients), np.int32)  # rounds that a client took part in, by their σ
    for number in range(1, rounds + 1):
        sigma = settings.noise_multiplier_of(number)
        histories, of_client = np.unique(taken, axis=1, return_inverse=True)
        able = np.array([_affords_one_more(settings, sigmas, history, sigma) for history in histories.T])[
            of_client.ravel()
        ]
        if not able.any():
            return
        drawn = able & (_lots(scenario, number) < settings.sampling_rate_of(number, scenario.federation.sampling_rate))
        taken[sigmas.index(sigma), drawn] += 1
        yield _clients(drawn)


def _affords_one_more(settings: ClientLevelSettings, sigmas: list[float], history: np.ndarray, sigma: float) -> bool:
    spent = [GaussianRelease(each, count=int(count)) for each, count in zip(sigmas, history, strict=True) if count]
    return affords([*spent, GaussianRelease(sigma)], settings.epsilon, settings.delta)


def _lots(scenario: Scenario, number: int) -> np.ndarray:
    """Each client's β of the round, uniform in [0, 1): float64 (clients,)."""
    digest = hashlib.sha256(f"fedgrove lots {scenario.seed} {scenario.clients} {number}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest, "big")).random(scenario.clients)


def _clients(drawn: np.ndarray) -> tuple[int, ...]:
    return tuple(1 + int(index) for index in np.flatnonzero(drawn))
