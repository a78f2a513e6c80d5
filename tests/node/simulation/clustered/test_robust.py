"""Rivals: Krum, median and trimmed mean against their definitions; IFCA against a loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import trim_mean

from fedgrove.node.base.tensors import Layout
from fedgrove.node.simulation.clustered import robust
from fedgrove.node.simulation.clustered.robust import krum, krum_order, median, squared_distances, trimmed_mean
from tests.node.simulation.clustered.ifca import average, estimate


def models(n: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@pytest.fixture(autouse=True, params=[3, 1 << 16])
def columns(request, monkeypatch):
    """In one piece, and in pieces that do not divide the length."""
    monkeypatch.setattr(robust, "_COLUMNS", request.param)


@pytest.mark.parametrize(("n", "attackers"), [(5, 1), (9, 3), (10, 0), (12, 2)])
def test_krum_is_that_of_the_paper(n, attackers):
    found = models(n, 20, seed=n)
    distances = cdist(found, found, "sqeuclidean")
    assert np.allclose(squared_distances(found), distances)
    scores = [sum(sorted(np.delete(distances[i], i))[: n - attackers - 2]) for i in range(n)]
    assert krum_order(found, attackers).tolist() == sorted(range(n), key=scores.__getitem__)
    assert np.array_equal(krum(found, attackers), found[int(np.argmin(scores))])
    best = sorted(range(n), key=scores.__getitem__)[:3]
    assert np.allclose(krum(found, attackers, 3), found[best].mean(axis=0), atol=1e-6)


def test_distances_of_models_far_from_zero_do_not_cancel():
    found = models(6, 50, 1) * np.float32(1e-3) + np.float32(100)
    assert np.allclose(squared_distances(found), cdist(found, found, "sqeuclidean"), rtol=1e-6)


def test_krum_says_how_many_it_needs():
    with pytest.raises(ValueError, match="at least 7 models, not 6"):
        krum(models(6, 4, 0), 2)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(0, 99))
def test_median_and_trimmed_mean(n, seed):
    found = models(n, 20, seed)
    assert np.array_equal(median(found), np.median(found, axis=0))
    for trimmed in range((n + 1) // 2):
        expected = trim_mean(found.astype(np.float64), trimmed / n + 1e-9, axis=0)
        assert np.allclose(trimmed_mean(found, trimmed), expected, atol=1e-6)
    assert trimmed_mean(found, 0).dtype == median(found).dtype == np.float32


def test_all_values_cannot_be_left_out():
    with pytest.raises(ValueError, match="of 4 values 2 at either end"):
        trimmed_mean(models(4, 5, 0), 2)


def test_a_minority_of_wild_models_moves_none_of_them():
    honest = models(7, 20, 3) * np.float32(0.01)
    wild = np.full((3, 20), 1e6, np.float32)
    together = np.concatenate([honest, wild])
    for mean in (krum(together, 3), krum(together, 3, 4), median(together), trimmed_mean(together, 3)):
        assert np.abs(mean).max() < 0.1


def test_ifca_averages_what_its_clients_made_of_each_model():
    layout = Layout(("w",), ((20,),))
    current, trained = list(models(3, 20, 1)), dict(enumerate(models(4, 20, 2)))
    losses = np.array([[0.3, 0.2, 0.9], [0.1, 0.2, 0.3], [0.5, 0.4, np.nan], [0.2, 0.2, 0.2]])
    choices = dict(enumerate(estimate(losses).tolist()))
    assert choices == {0: 1, 1: 0, 2: 1, 3: 0}
    samples = {0: 10, 1: 1, 2: 30, 3: 2}
    following = average(current, trained, choices, samples, layout, 8.0)
    assert np.allclose(following[0], np.average([trained[1], trained[3]], axis=0, weights=[1, 2]), atol=1e-6)
    assert np.allclose(following[1], np.average([trained[0], trained[2]], axis=0, weights=[10, 30]), atol=1e-6)
    assert np.array_equal(following[2], current[2])
