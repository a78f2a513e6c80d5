"""Norms of whole updates, what is done with hostile ones, and how S follows a quantile."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedgrove.node.privacy.clipping import clip_factor, clip_range, l2_norm, median_clip, next_clip
from fedgrove.node.privacy.settings import ClientLevelSettings

ANY_UPDATE = arrays(np.float32, st.integers(0, 200), elements=st.floats(width=32))


@given(ANY_UPDATE)
def test_the_norm_is_that_of_all_values_or_infinite(update):
    norm = l2_norm(update)
    if np.isfinite(update).all():
        assert norm == pytest.approx(math.sqrt(math.fsum(float(value) ** 2 for value in update)))
    else:
        assert norm == math.inf


def test_the_norm_is_of_the_whole_vector_and_no_float32_overflows_it():
    large = np.full(20_001, np.finfo(np.float32).max, np.float32)
    assert l2_norm(large) == pytest.approx(math.sqrt(20_001) * float(np.finfo(np.float32).max), rel=1e-12)
    assert l2_norm(np.full(9, 1e-45, np.float32)) == pytest.approx(3 * float(np.float32(1e-45)), rel=1e-12)


@given(ANY_UPDATE, st.floats(1e-6, 1e6))
def test_a_clipped_update_has_at_most_the_norm_s(update, clip):
    factor = clip_factor(l2_norm(update), clip)
    assert 0 <= factor <= 1
    if factor:
        assert l2_norm(update) * factor <= clip * (1 + 1e-12)
    else:
        assert not np.isfinite(update).all()


def test_a_small_update_is_left_as_it_is():
    assert clip_factor(0.5, 1.0) == 1.0 and clip_factor(0.0, 1.0) == 1.0
    assert clip_factor(4.0, 1.0) == 0.25


def terms(quantile: float = 0.5, rate: float = 0.2, first: float = 2.0) -> ClientLevelSettings:
    return ClientLevelSettings(clipping="quantile", clip=first, quantile=quantile, quantile_rate=rate)


def test_the_next_s_by_hand():
    assert next_clip(2.0, 0.75, terms()) == pytest.approx(2 * math.exp(-0.05), rel=1e-15)
    assert next_clip(2.0, 0.5, terms()) == 2.0
    assert next_clip(2.0, -7.0, terms()) == next_clip(2.0, 0.0, terms())


def test_s_stays_within_a_tenth_and_ten_times_its_first_value():
    assert clip_range(terms()) == (0.2, 20.0)
    assert next_clip(20.0, 0.0, terms(0.9, 10)) == 20.0 and next_clip(0.2, 1.0, terms(0.1, 10)) == 0.2
    assert clip_range(terms(first=1e-6))[0] == 1e-6 and clip_range(terms(first=1e6))[1] == 1e6


@pytest.mark.parametrize("quantile", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("start", [0.5, 20.0])
def test_s_converges_to_the_quantile_of_the_norms(quantile, start):
    rng = np.random.default_rng(7)
    clip, seen = start, []
    for _ in range(600):
        norms = rng.lognormal(mean=1.0, sigma=0.5, size=100)
        below = ((norms <= clip).sum() + rng.normal(0, 5)) / 100  # σ_b = m/20, as Andrew et al. do
        clip = next_clip(clip, below, terms(quantile, first=start))
        seen.append(clip)
    settled = np.array(seen[300:])
    share_below = np.mean(rng.lognormal(1.0, 0.5, 100_000) <= np.exp(np.log(settled).mean()))
    assert share_below == pytest.approx(quantile, abs=0.03)
    assert np.log(settled).std() < 0.1


def test_the_papers_median():
    assert median_clip([3.0, 1.0, 10.0]) == 3.0
    assert median_clip([1.0, 2.0, math.inf]) == 2.0
    assert median_clip([math.inf]) == 1e6 and median_clip([0.0]) == 1e-6
