"""Clients are drawn as the accounting counts on, and not beyond what the budget affords."""

import numpy as np
import pytest

from fedgrove.node.privacy.accountant import GaussianRelease, affords
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.scenario.reading import MANY
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.draws import draws, last_round, rate_of


def plan_with(rounds: int = 10, clients: int = 200, sampled: float = 0.3, seed: int = 1, **settings) -> Scenario:
    return MANY.changed(
        cast={"clients": clients},
        federation={"sampling_rate": sampled, "rounds": rounds, "seed": seed},
        privacy=ClientLevelSettings(delta=1e-3, **settings),
    )


def test_without_client_level_privacy_a_fixed_number_is_drawn():
    plan = MANY.changed(cast={"clients": 20}, federation={"sampling_rate": 0.25, "rounds": 4})
    assert list(draws(plan)) == [plan.draw(number) for number in (1, 2, 3, 4)]
    assert last_round(plan) == 4


def test_the_rate_of_a_round_is_the_share_of_the_clients_that_it_draws():
    assert rate_of(MANY.changed(cast={"clients": 20}, federation={"sampling_rate": 0.27, "rounds": 4}), 1) == 5 / 20
    plan = plan_with(epsilon=1000, noise_multipliers=(5.0, 4.0), sampling_rates=(0.3, 0.1), phases=(4,))
    assert [rate_of(plan, number) for number in (1, 3, 4)] == [0.3, 0.3, 0.1]


def test_poisson_draws_have_the_binomials_mean_and_variance_and_follow_from_the_seed():
    plan = plan_with(rounds=400, epsilon=1000, noise_multipliers=(5.0,), participation="secret")
    counts = np.array([len(clients) for clients in draws(plan)])
    assert len(counts) == 400
    assert counts.mean() == pytest.approx(60, abs=4 * np.sqrt(42 / 400))
    assert counts.var() == pytest.approx(42, rel=0.3)
    by_client = np.bincount([client for clients in draws(plan) for client in clients])[1:]
    assert abs(by_client - 120).max() < 5 * np.sqrt(400 * 0.21)
    assert list(draws(plan)) == list(draws(plan)) != list(draws(plan.with_seed(2)))


def test_rates_follow_the_phases():
    plan = plan_with(
        rounds=60, epsilon=1000, noise_multipliers=(5.0, 5.0), sampling_rates=(0.1, 0.9), phases=(31,),
        participation="secret",
    )  # fmt: skip
    counts = [len(clients) for clients in draws(plan)]
    assert np.mean(counts[:30]) == pytest.approx(20, abs=4) and np.mean(counts[30:]) == pytest.approx(180, abs=4)


def test_with_secret_participation_training_ends_for_all_with_the_budget():
    plan = plan_with(rounds=100, epsilon=8, noise_multipliers=(1.0, 0.9), phases=(6,), participation="secret")
    last = last_round(plan)
    assert 6 < last < 100 and len(list(draws(plan))) == last
    spent = [GaussianRelease(1.0, 0.3, 5), GaussianRelease(0.9, 0.3, last - 5)]
    assert affords(spent, 8, 1e-3)
    assert not affords([*spent, GaussianRelease(0.9, 0.3)], 8, 1e-3)


def test_with_public_participation_each_client_stops_at_its_own_budget():
    plan = plan_with(rounds=100, clients=30, epsilon=8, noise_multipliers=(1.5, 1.0), phases=(4,))
    taken = {client: [] for client in range(1, 31)}
    rounds = list(draws(plan))
    for number, clients in enumerate(rounds, 1):
        for client in clients:
            taken[client].append(GaussianRelease(1.5 if number < 4 else 1.0))
    assert len(rounds) == last_round(plan) < 100
    for releases in taken.values():
        assert affords(releases, 8, 1e-3)
        assert not affords([*releases, GaussianRelease(1.0)], 8, 1e-3), "training ends when nobody can afford more"


def test_a_budget_for_no_round_draws_nobody():
    for participation in ("secret", "public"):
        assert last_round(plan_with(epsilon=0.01, participation=participation)) == 0
