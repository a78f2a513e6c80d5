"""The measures against exact values."""

import math

import numpy as np
import pytest
from scipy import stats

from fedgrove_lab.attacks.measures import correlation, correlation_error, nearest, psnr, uniformity


def test_psnr_of_exact_differences():
    image = np.full((1, 4, 4), 0.5, np.float32)
    assert psnr(image, image) == math.inf
    assert psnr(image, image + 0.5) == pytest.approx(20 * math.log10(2))
    assert psnr(np.zeros((2, 2)), np.array([[1.0, 0], [0, 0]])) == pytest.approx(10 * math.log10(4))
    assert psnr(np.zeros(100), np.full(100, 0.1)) == pytest.approx(20)
    with pytest.raises(ValueError, match="cannot be compared"):
        psnr(image, image[0])


def test_correlation_of_multiples_constants_and_unrelated_values():
    values = np.arange(5, dtype=np.float32)
    assert correlation(values, 3 * values + 1) == pytest.approx(1)
    assert correlation(values, -values) == pytest.approx(-1)
    assert correlation(values, np.ones(5)) == 0
    assert correlation([1, -1, 1, -1] * np.ones(4), np.array([1.0, 1, -1, -1])) == 0


def test_the_standard_error_is_that_of_independent_vectors():
    generator = np.random.default_rng(0)
    found = [correlation(*generator.standard_normal((2, 50))) for _ in range(2000)]
    assert np.std(found) == pytest.approx(correlation_error(50), rel=0.06)


def test_uniformity_is_the_normal_quantile_of_chi_squared():
    generator = np.random.default_rng(1)
    words = generator.integers(0, 1 << 32, 50_000, np.uint32)
    counts = np.bincount(words.view(np.uint8), minlength=256)
    assert uniformity(words) == pytest.approx(stats.norm.isf(stats.chisquare(counts).pvalue), abs=0.01)
    assert uniformity(words & 0xFEFFFFFF) > 20


def test_the_nearest_original_is_found_whatever_the_brightness():
    originals = np.random.default_rng(2).random((6, 1, 8, 8))
    assert [nearest(0.2 * image + 0.3, originals) for image in originals] == list(range(6))
