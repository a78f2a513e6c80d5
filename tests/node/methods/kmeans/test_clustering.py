"""Weighted K-means: means, against scikit-learn, and the same to the bit for integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.node.methods.kmeans import clustering
from fedgrove.node.methods.kmeans.clustering import kmeans, nearest, refine, squared_distances


def blobs(seed: int, integer: bool = False):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-50, 50, (5, 3))
    points = np.repeat(centres, 60, axis=0) + rng.normal(0, 3, (300, 3))
    return (np.rint(points).astype(int) if integer else points), rng.integers(1, 20, 300)


@pytest.mark.parametrize("integer", [False, True])
def test_centres_are_weighted_means_of_their_points(integer):
    points, weights = blobs(0, integer)
    found = kmeans(points, weights, 5, np.random.default_rng(0))
    labels = nearest(points, found.centres)
    for cluster in range(5):
        own = labels == cluster
        mean = np.average(points[own], axis=0, weights=weights[own])
        assert found.centres[cluster] == pytest.approx(mean, abs=1e-5 if integer else 1e-12)
    assert found.loss == pytest.approx((weights * squared_distances(points, found.centres).min(axis=1)).sum())


def test_a_weight_is_so_many_equal_points():
    points, weights = blobs(1, True)
    one = kmeans(points, weights, 5, np.random.default_rng(0))
    other = kmeans(np.repeat(points, weights, axis=0), np.ones(weights.sum(), int), 5, np.random.default_rng(0))
    assert one.loss == pytest.approx(other.loss)
    assert np.array_equal(one.centres, other.centres)


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_is_that_of_scikit_learn(seed):
    sklearn = pytest.importorskip("sklearn.cluster")
    points, weights = blobs(seed)
    other = sklearn.KMeans(5, n_init=10, random_state=0).fit(points, sample_weight=weights)
    assert kmeans(points, weights, 5, np.random.default_rng(0)).loss == pytest.approx(other.inertia_, rel=1e-6)


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 6), st.integers(1, 1000))
def test_integers_are_clustered_without_rounding(seed, n, k, reach):
    """In exact rational arithmetic every centre is the mean of its points, rounded to the grid of centres."""
    rng = np.random.default_rng(seed)
    points, weights = rng.integers(-reach, reach + 1, (n, 4)), rng.integers(1, 100, n)
    scale = 1 << clustering._fraction_bits(points, weights)
    found = kmeans(points, weights, k, np.random.default_rng(0), restarts=3)
    fixed = found.centres * scale
    assert np.array_equal(fixed, np.rint(fixed))
    distances = ((points[:, None] * scale - fixed.astype(np.int64)) ** 2).sum(axis=2)
    own = distances.argmin(axis=1)
    for cluster in range(len(fixed)):
        members = own == cluster
        if members.any() and len(np.unique(fixed, axis=0)) == len(fixed):
            total = (points[members] * weights[members, None]).sum(axis=0) * scale
            assert (np.abs(total - fixed[cluster] * weights[members].sum()) <= weights[members].sum()).all()


@given(st.integers(0, 2**32))
def test_the_order_of_the_points_does_not_matter(seed):
    """Nor, with it, the order in which a processor adds."""
    points, weights = blobs(3, True)
    centres = points[:5].astype(float)[None].repeat(2, axis=0) * 16.0
    order = np.random.default_rng(seed).permutation(len(points))
    one = clustering._lloyd(points.astype(float), weights.astype(float), centres, 4, 10)
    other = clustering._lloyd(points[order].astype(float), weights[order].astype(float), centres, 4, 10)
    assert [part.tobytes() for part in one] == [part.tobytes() for part in other]


def test_everything_stays_below_two_to_the_53():
    points = np.full((4, 784), 200)
    weights = np.full(4, 10_000)
    bits = clustering._fraction_bits(points, weights)
    assert bits >= 10 and 3 * 784 * 200**2 * 4**bits < 1 << 53
    with pytest.raises(ValueError, match="coarser grid"):
        clustering._fraction_bits(np.full((4, 784), 1 << 24), weights)


def test_fewer_points_than_clusters():
    found = kmeans(np.array([[1, 2], [3, 4]]), np.array([5, 6]), 4, np.random.default_rng(0))
    assert found.centres.tolist() == [[1, 2], [3, 4]] and found.loss == 0
    same = kmeans(np.zeros((5, 2)), np.ones(5, int), 3, np.random.default_rng(0))
    assert not same.centres.any() and same.loss == 0
    with pytest.raises(ValueError, match="no points"):
        kmeans(np.empty((0, 2)), np.empty(0, int), 3, np.random.default_rng(0))


def test_more_restarts_are_not_worse():
    points, weights = blobs(4)
    losses = [kmeans(points, weights, 8, np.random.default_rng(7), restarts=r).loss for r in (1, 20)]
    assert losses[1] <= losses[0]


def test_refining_from_given_centres():
    points = np.array([[0.0], [1], [10], [11]])
    assert refine(points, np.array([[0.0], [1]])).ravel().tolist() == [0.5, 10.5]
    assert refine(points, np.array([[0.0], [1]]), 1).ravel().tolist() == [0, 22 / 3]
