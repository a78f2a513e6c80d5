"""What is spent: published values, two other accountants, and the arithmetic of budgets."""

import math
import subprocess
import sys
from itertools import product

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from scipy.stats import norm

from fedgrove.node.privacy.accountant import (
    GaussianRelease,
    PureRelease,
    affords,
    delta_of,
    epsilon_of,
    noise_for,
    rounds_left,
)

# Table 1 of Geyer et al. 2017: K clients; communication costs over communication rounds give m, and q = m/K.
ROWS = {
    "K = 100": (550 / 11 / 100, 11, 1e-3, 7.79, 0.983),
    "K = 1,000": (11_880 / 54 / 1000, 54, 1e-5, 11.58, 1.251),
    "K = 10,000": (209_500 / 412 / 10_000, 412, 1e-6, 7.84, 0.990),
}


@pytest.mark.parametrize("rate, rounds, delta, epsilon, sigma", ROWS.values(), ids=ROWS)
def test_the_papers_rows_cost_what_is_published(rate, rounds, delta, epsilon, sigma):
    spent = [GaussianRelease(1.0, rate, rounds)]
    assert epsilon_of(spent, delta) == pytest.approx(epsilon, abs=0.01)
    assert noise_for(rounds, rate, 8.0, delta) == pytest.approx(sigma, abs=0.001)
    assert delta_of(spent, epsilon_of(spent, delta)) == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize("rate, rounds, delta, epsilon, sigma", ROWS.values(), ids=ROWS)
def test_opacus_and_renyi_accountants_agree(rate, rounds, delta, epsilon, sigma):
    from opacus.accountants import PRVAccountant

    spent = epsilon_of([GaussianRelease(1.0, rate, rounds)], delta)
    prv = PRVAccountant()
    prv.history = [(1.0, rate, rounds)]
    assert spent == pytest.approx(prv.get_epsilon(delta), abs=0.02)
    bound = rdp.RdpAccountant(orders=np.arange(2, 64))
    bound.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(1.0)), rounds)
    assert spent <= bound.get_epsilon(delta) < 1.4 * spent


@pytest.mark.parametrize("sigma, count", [(1.0, 1), (4.0, 100), (0.7, 3)])
def test_gaussians_without_sampling_are_one_gaussian(sigma, count):
    """δ(ε) = Φ(1/2s − εs) − e^ε·Φ(−1/2s − εs) with s = σ/√T; and the library says the same."""
    single = sigma / math.sqrt(count)
    spent = [GaussianRelease(sigma, 1.0, count)]
    for epsilon in (0.5, 2.0):
        exact = norm.cdf(0.5 / single - epsilon * single) - math.exp(epsilon) * norm.cdf(
            -0.5 / single - epsilon * single
        )
        assert delta_of(spent, epsilon) == pytest.approx(exact, rel=1e-9)
    assert epsilon_of(spent, 1e-5) == pytest.approx(dp_accounting.get_epsilon_gaussian(single, 1e-5), rel=1e-9)


def test_the_library_composes_what_has_a_closed_form_to_the_same():
    almost = [GaussianRelease(2.0, 1.0, 10), PureRelease(1e-9)]  # the pure release keeps it from the closed form
    assert epsilon_of(almost, 1e-5) == pytest.approx(epsilon_of([GaussianRelease(2.0, 1.0, 10)], 1e-5), abs=2e-3)


def test_one_sampled_gaussian_by_hand():
    """Removing a client: δ = q·δ_Gauss(ε′) with e^ε′ = 1 + (e^ε − 1)/q for a single release."""
    rate, sigma, epsilon = 0.1, 1.0, 1.0
    inner = math.log(1 + (math.exp(epsilon) - 1) / rate)
    assert delta_of([GaussianRelease(sigma, rate)], epsilon) == pytest.approx(
        rate * delta_of([GaussianRelease(sigma)], inner), rel=1e-3
    )


def test_pure_releases_add_up():
    assert epsilon_of([PureRelease(0.7, 3)], 1e-12) == pytest.approx(2.1, abs=1e-3)
    assert delta_of([PureRelease(0.7, 3)], 2.101) <= 1e-12


def test_mechanisms_compose():
    gaussian, pure, sampled = GaussianRelease(2.0, 1.0, 5), PureRelease(0.5), GaussianRelease(1.0, 0.1, 10)
    parts = [epsilon_of([part], 1e-5) for part in (gaussian, pure, sampled)]
    together = epsilon_of([gaussian, pure, sampled], 1e-5)
    assert max(parts) < together < sum(parts)
    assert epsilon_of([sampled, pure, gaussian], 1e-5) == together
    assert epsilon_of([GaussianRelease(1.0, 0.1, 4), pure, gaussian, GaussianRelease(1.0, 0.1, 6)], 1e-5) == together


def test_nothing_released_costs_nothing_and_no_noise_everything():
    assert epsilon_of([], 1e-5) == 0 and delta_of([], 1.0) == 0
    assert epsilon_of([GaussianRelease(1.0, 0.1, 0)], 1e-5) == 0
    bare = [GaussianRelease(1.0), GaussianRelease(0.0, 0.1)]
    assert epsilon_of(bare, 1e-5) == math.inf and delta_of(bare, 100.0) == 1
    assert not affords(bare, 1000.0, 0.1)


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_more_noise_costs_less_and_more_rounds_more(rate):
    cost = {
        (sigma, count): epsilon_of([GaussianRelease(sigma, rate, count)], 1e-5)
        for sigma, count in product((1.0, 2.0), (1, 8))
    }
    assert cost[2.0, 1] < cost[1.0, 1] < cost[1.0, 8] and cost[2.0, 8] < cost[1.0, 8]


@pytest.mark.parametrize("rate, sigma", [(0.22, 1.0), (1.0, 4.0)])
def test_the_rounds_left_are_those_the_budget_affords(rate, sigma):
    each, before = GaussianRelease(sigma, rate), [GaussianRelease(2.0, rate, 5)]
    left = rounds_left(before, each, 8.0, 1e-5, 1000)
    assert 1 < left < 1000
    assert affords([*before, GaussianRelease(sigma, rate, left)], 8.0, 1e-5)
    assert not affords([*before, GaussianRelease(sigma, rate, left + 1)], 8.0, 1e-5)
    assert rounds_left(before, each, 8.0, 1e-5, 3) == 3
    assert rounds_left([GaussianRelease(0.2)], each, 8.0, 1e-5, 1000) == 0


def test_hardly_any_noise_costs_a_fortune_but_no_time():
    spent = [GaussianRelease(0.02, 0.5, 10), GaussianRelease(1.0, 0.1, 10)]
    assert epsilon_of(spent, 1e-5) > 1000
    assert delta_of(spent, 8.0) == pytest.approx(1 - 0.5**10, rel=0.01)


@pytest.mark.parametrize("rounds, rate, epsilon", [(100, 1.0, 1.0), (10, 0.01, 0.5), (1, 1.0, 50.0), (2000, 0.02, 3.0)])
def test_the_noise_for_a_target_is_enough_and_no_more(rounds, rate, epsilon):
    sigma = noise_for(rounds, rate, epsilon, 1e-6)
    assert affords([GaussianRelease(sigma, rate, rounds)], epsilon, 1e-6)
    assert not affords([GaussianRelease(0.997 * sigma, rate, rounds)], epsilon, 1e-6)


def test_clients_that_count_on_nothing_but_their_own_rounds_need_no_library():
    """Enforcing a budget must not load scipy: clients ask in every round."""
    script = """
import sys
from fedgrove.node.privacy.accountant import GaussianRelease, affords
assert affords([GaussianRelease(4.0, 1.0, 3)], 8.0, 1e-5)
assert not {"scipy", "dp_accounting"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)


def test_the_library_says_nothing_on_stderr():
    script = """
from fedgrove.node.privacy.accountant import GaussianRelease, epsilon_of, noise_for
epsilon_of([GaussianRelease(1.0, 0.1, 3)], 1e-5)
noise_for(10, 0.1, 8.0, 1e-5)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=300)
    assert not result.stderr and not result.stdout
