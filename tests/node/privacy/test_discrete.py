"""The sampler draws discrete Gaussians, by χ²; wide ones are sums of narrow ones; and the sum of shares is one."""

import math
from fractions import Fraction
from hashlib import sha256
from random import Random

import numpy as np
import pytest
from scipy import stats

from fedgrove.node.privacy.discrete import Wide, add_noise, discrete_gaussian, sum_log_ratio
from fedgrove.node.privacy.stream import Stream

DRAWS = 1 << 20


def pmf(variance, reach: int) -> np.ndarray:
    """P(k) for |k| ≤ reach, in double precision."""
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-(k**2) / (2 * float(variance)))
    return weights / weights.sum()


def drawn(variance, seed: int, count: int = DRAWS) -> np.ndarray:
    words = np.zeros(count, np.uint32)
    add_noise(words, Fraction(variance), Random(seed).randbytes)
    return words.view(np.int32)


def chi_squared(sample: np.ndarray, variance: float, bins: int = 60) -> float:
    """p-value that the sample is of N_ℤ(0, variance), over bins of about equal probability."""
    reach = math.ceil(8 * math.sqrt(variance))
    chances = pmf(variance, reach)
    edges = np.unique(np.searchsorted(chances.cumsum(), np.linspace(0, 1, bins + 1)[1:-1]))
    expected = np.diff([0, *chances.cumsum()[edges], 1]) * len(sample)
    observed = np.bincount(np.searchsorted(edges - reach, sample), minlength=len(expected))
    return stats.chisquare(observed, expected).pvalue


# A million draws in 60 bins: a variance that is 2 % off has a noncentrality of about 10⁶·0.02²/2 = 200, which a
# test at the level of 10⁻⁴ finds with a power above 0.999. The last line sees that it does.
@pytest.mark.parametrize("deviation", [4, 7.5, 57.3, 256, 900, 1600, 1601, 8192, 70_000, 300_000])
def test_draws_are_of_the_distribution(deviation):
    variance = Fraction(deviation) ** 2
    sample = drawn(variance, seed=5)
    assert chi_squared(sample, float(variance)) > 1e-4
    assert abs(sample.mean()) < 4.5 * deviation / math.sqrt(DRAWS)
    assert chi_squared(sample, 0.98 * float(variance)) < 1e-4  # the test has power


def test_all_outcomes_of_a_narrow_one_have_their_probability():
    sample = drawn(16, seed=6)
    chances = pmf(16, 17)
    observed = np.bincount(np.clip(sample, -17, 17) + 17)
    assert stats.chisquare(observed, chances * DRAWS, sum_check=False).pvalue > 1e-4


@pytest.mark.parametrize("deviation", [1601, 2500, 3000])
def test_a_sum_of_two_scales_has_the_pmf_of_one_discrete_gaussian(deviation):
    wide = discrete_gaussian(Fraction(deviation) ** 2)
    assert isinstance(wide, Wide)
    fine, coarse = pmf(wide.fine.variance, 12 * wide.step * 4), pmf(wide.coarse.variance, wide.coarse.residue.near)
    spread = np.zeros((len(coarse) - 1) * wide.step + 1)
    spread[:: wide.step] = coarse
    together = np.convolve(fine, spread)
    middle = len(together) // 2
    near = slice(middle - 5 * deviation, middle + 5 * deviation + 1)
    assert np.allclose(together[near], pmf(deviation**2, 10 * deviation)[5 * deviation : -5 * deviation], rtol=1e-9)
    assert wide.fine.variance + wide.step**2 * wide.coarse.variance == deviation**2
    assert wide.log_ratio < 1e-67


@pytest.mark.parametrize("variance", [16, 17.3, 256**2 + 1, 8192**2, 2**40 + 0.5, 2**52])
def test_what_is_lost_is_below_any_double(variance):
    sampler = discrete_gaussian(Fraction(variance))
    assert sampler.log_ratio < 1e-67 and sampler.distance < 2.0**-238
    assert sum_log_ratio(Fraction(variance), 10**6) < 1e-60


def test_a_sum_of_shares_is_a_discrete_gaussian():
    shares = sum(drawn(Fraction(400, 7), seed) for seed in range(7))
    assert chi_squared(shares, 400) > 1e-4


def test_noise_is_added_modulo_2_32_and_to_every_word():
    words = np.full(100_003, 2**32 - 3, np.uint32)  # no multiple of what is done at a time
    add_noise(words, Fraction(500**2), Random(1).randbytes)
    noise = words.view(np.int32) + 3
    assert chi_squared(noise, 500**2) > 1e-4
    assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 0.02
    other = np.zeros_like(words)
    add_noise(other, Fraction(500**2), Random(2).randbytes)
    assert abs(np.corrcoef(noise, other.view(np.int32))[0, 1]) < 0.02


def test_a_seed_gives_the_bytes_that_the_results_were_made_with():
    """Where this changes, what ``simulate`` gives for a plan with noise changes: run docs/results/geyer again."""
    digest = sha256()
    for variance, length in ((Fraction(16), 5001), (Fraction(819**2), 300_001), (Fraction(2**40), 70_000)):
        words = np.zeros(length, np.uint32)
        add_noise(words, variance, Random(3).randbytes)
        digest.update(words.tobytes())
    assert digest.hexdigest()[:16] == "68eb51f70df91a0f"


def test_a_stream_is_uniform_and_does_not_repeat():
    stream = Stream(Random(3).randbytes)
    words = np.concatenate([stream.take(1 << 15, np.uint16).copy() for _ in range(16)])
    assert stats.chisquare(np.bincount(words >> 8, minlength=256)).pvalue > 1e-4
    assert stream.integer(192) != stream.integer(192)


@pytest.mark.parametrize("variance", [0, 15.9, 2**52 + 1])
def test_noise_that_is_too_narrow_or_too_wide_is_refused(variance):
    with pytest.raises(ValueError, match="variance from 16"):
        discrete_gaussian(Fraction(variance))


def test_the_bound_for_a_sum_is_that_of_all_shares_and_what_adding_them_adds():
    added = 2 * math.exp(-2 * math.pi**2 * 8)  # η(√(v/2)) of v = 16
    for shares in (1, 1000):
        assert shares * added < sum_log_ratio(Fraction(16), shares) < 1.01 * shares * added
