"""Local differential privacy: calibration against published values and numerical integration, clip, noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import integrate, stats
from scipy.special import log_ndtr

from fedgrove.common.errors import InvalidInput
from fedgrove.node.privacy import local
from fedgrove.node.privacy.local import gaussian_delta, gaussian_epsilon, gaussian_sigma, mechanism_for, randomize
from fedgrove.node.privacy.settings import LocalSettings

ALPHA = 1e-3
FLOATS = st.floats(width=32)


def seeded(seed: int):
    return np.random.default_rng(seed).bytes


def test_mindspores_defaults_give_its_noise_at_its_sensitivity_and_twice_that_honestly():
    assert gaussian_sigma(50, 0.01, 1.0) == pytest.approx(0.125, abs=5e-4)
    mechanism = mechanism_for(LocalSettings(), 44_426)
    assert mechanism.sigma == pytest.approx(0.25, abs=1e-3)
    # What MindSpore's noise is worth for two opposite updates of norm C.
    assert gaussian_epsilon(gaussian_sigma(50, 0.01, 1.0), 0.01, 2.0) == pytest.approx(165.2, abs=0.1)


def test_an_upload_counts_as_its_noise_over_the_distance_of_two_clipped_updates():
    mechanism = mechanism_for(LocalSettings(), 10)
    assert mechanism.sensitivity == 2 * mechanism.clip
    assert mechanism.noise_multiplier == pytest.approx(gaussian_sigma(50, 0.01, 1.0), rel=1e-9)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 8.0])
def test_delta_is_the_integral_of_the_excess_density(sigma, epsilon):
    """δ = ∫ max(0, p − e^ε·q) with p, q two normal densities a distance of 1 apart."""

    def excess(x):
        p, q = stats.norm.pdf(x, 1, sigma), stats.norm.pdf(x, 0, sigma)
        return max(0.0, p - math.exp(epsilon) * q)

    kink = 0.5 + epsilon * sigma**2
    value, _ = integrate.quad(excess, kink, max(kink, 1) + 12 * sigma, epsabs=1e-14, epsrel=1e-10, limit=200)
    assert gaussian_delta(sigma, epsilon, 1.0) == pytest.approx(value, rel=1e-7, abs=1e-13)


@given(st.floats(1e-3, 300), st.floats(-12, -1), st.floats(1e-3, 1e3))
@example(0.001, -11.875, 1.40625)  # rounds in an unlucky way
def test_sigma_and_epsilon_are_each_others_inverse(epsilon, log_delta, sensitivity):
    delta = 10**log_delta
    sigma = gaussian_sigma(epsilon, delta, sensitivity)
    assert gaussian_delta(sigma, epsilon, sensitivity) <= delta
    assert gaussian_delta(sigma * (1 - 1e-6), epsilon, sensitivity) > delta
    again = gaussian_epsilon(sigma, delta, sensitivity)
    assert again == pytest.approx(epsilon, rel=1e-6, abs=1e-8)  # the margin for rounding, at large δ


@given(st.floats(-1e4, 8))
def test_the_logarithm_of_the_normal_distribution_holds_far_out(x):
    assert local.log_normal(x) == pytest.approx(float(log_ndtr(x)), rel=1e-12, abs=1e-15)


def test_noise_that_needs_no_epsilon_costs_none():
    assert gaussian_epsilon(1e6, 0.01, 1.0) == 0


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (50.0, 0.01)])
def test_uploads_add_up_as_one_mechanism_of_greater_sensitivity(epsilon, delta):
    mechanism = mechanism_for(LocalSettings(epsilon=epsilon, delta=delta), 1000)
    once, hundred = mechanism.epsilon_after(1, delta), mechanism.epsilon_after(100, delta)
    assert once == pytest.approx(epsilon, rel=1e-6) and once <= epsilon
    assert hundred == pytest.approx(gaussian_epsilon(mechanism.sigma / 10, delta, 2.0), rel=1e-6)
    assert once < hundred < 100 * once


@given(arrays(np.float32, st.integers(1, 50), elements=FLOATS), st.sampled_from([1e-3, 1.0, 50.0]))
def test_no_update_is_longer_than_the_clip_on_the_grid(update, epsilon):
    mechanism = mechanism_for(LocalSettings(epsilon=epsilon, clip=0.7), len(update))
    grid = local.on_grid(mechanism, update)
    assert sum(int(value) ** 2 for value in grid) <= (Fraction(mechanism.clip) / Fraction(mechanism.unit)) ** 2


def test_a_million_parameters_are_clipped_as_one_vector():
    update = np.random.default_rng(0).normal(size=1_000_000).astype(np.float32)
    mechanism = mechanism_for(LocalSettings(epsilon=1.0, delta=1e-5), len(update))
    grid = local.on_grid(mechanism, update).astype(object)
    norm = math.sqrt((grid * grid).sum()) * mechanism.unit
    assert 0.99 < norm <= 1
    assert np.corrcoef(grid.astype(float), update)[0, 1] > 0.999


def test_an_update_within_the_clip_keeps_its_values():
    update = np.array([0.1, -0.2, 0.3, 0], np.float32)
    mechanism = mechanism_for(LocalSettings(), 4)
    assert local.on_grid(mechanism, update) * mechanism.unit == pytest.approx(update, abs=mechanism.unit)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_update_that_is_not_finite_counts_as_zero(value):
    update = np.ones(4, np.float32)
    update[2] = value
    mechanism = mechanism_for(LocalSettings(), 4)
    assert np.array_equal(
        randomize(mechanism, update, seeded(0)), randomize(mechanism, np.zeros(4, np.float32), seeded(0))
    )


@pytest.mark.parametrize("update", [np.zeros(4), np.zeros(3, np.float32), np.zeros((2, 2), np.float32)])
def test_an_update_of_another_form_is_refused(update):
    with pytest.raises(ValueError, match="4 float32 parameters"):
        randomize(mechanism_for(LocalSettings(), 4), update, seeded(0))


def test_the_noise_has_the_promised_distribution():
    """200,000 values: a standard deviation that is 1 % off would be found with 99 %."""
    length = 200_000
    update = np.random.default_rng(1).normal(size=length).astype(np.float32)
    update *= np.float32(0.5 / np.linalg.norm(update))
    mechanism = mechanism_for(LocalSettings(), length)
    upload = randomize(mechanism, update, seeded(2))
    assert upload.dtype == np.float32 and upload.shape == update.shape
    noise = (upload - update) / mechanism.sigma
    assert stats.kstest(noise, "norm").pvalue > ALPHA
    squares = float((noise.astype(np.float64) ** 2).sum())
    low, high = stats.chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], length)
    assert low < squares < high
    assert stats.chi2.sf(high / 1.01**2, length) > 0.99


def test_what_is_sent_lies_on_the_grid():
    """Nothing of the value below the noise is left in the last bits."""
    mechanism = mechanism_for(LocalSettings(), 1000)
    update = np.random.default_rng(3).normal(size=1000).astype(np.float32)
    upload = randomize(mechanism, update, seeded(4))
    units = np.rint(upload.astype(np.float64) / mechanism.unit)
    assert np.array_equal((units * mechanism.unit).astype(np.float32), upload)


def test_two_draws_differ_and_the_same_randomness_gives_the_same_bytes():
    mechanism = mechanism_for(LocalSettings(), 100)
    update = np.zeros(100, np.float32)
    first, again, other = (randomize(mechanism, update, seeded(seed)).tobytes() for seed in (1, 1, 2))
    assert first == again != other


def noise_to_signal(mechanism) -> float:
    """σ√d / C: length of one client's noise over an update's largest."""
    return mechanism.sigma * math.sqrt(mechanism.length) / mechanism.clip


def test_honest_noise_dwarfs_a_dense_update():
    mechanism = mechanism_for(LocalSettings(epsilon=1.0, delta=1e-5), 1_663_370)
    assert noise_to_signal(mechanism) > 9000
    assert noise_to_signal(mechanism_for(LocalSettings(), 1_663_370)) == pytest.approx(321, abs=2)


def test_a_model_too_large_for_the_grid_is_refused():
    with pytest.raises(InvalidInput, match="too large for local privacy"):
        mechanism_for(LocalSettings(epsilon=1e-3, delta=1e-12), 1 << 31)
