"""Seeding as K-means++ has it; forgetting gives exactly the distribution of seeding without the points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from fedgrove.node.methods.kmeans.seeding import REMOVED, Seeding, forget, seed
from tests.node.methods.kmeans.enumeration import distribution, total_variation

POINTS = np.array([[0.0, 0], [1, 0], [0, 1.5], [4, 4], [9, -3]])
CLOUD = np.array([[0, 0], [0.1, 0], [0, 0.2], [3, 3], [3.2, 3], [7, 0]], float)
REQUESTS = {
    "a point": [[1]],
    "a batch": [[0, 3]],
    "an outlier": [[4]],
    "one after another": [[4], [0], [2]],
    "batches": [[4, 1], [0]],
}
LARGE_REQUESTS = {"a point": [[3]], "a batch": [[0, 3]], "the greatest contributors": [[5], [3]]}


def seeded_and_forgotten(points, k, requests, rng=None) -> Seeding:
    found = seed(points, k, rng)
    for rows in requests:
        found, _ = forget(points, found, np.array(rows), k, rng)
    return found


def without(points, requests) -> np.ndarray:
    """Rows that are left."""
    return np.setdiff1d(np.arange(len(points)), np.concatenate(requests))


def seeded_without(points, k, requests, rng=None) -> np.ndarray:
    left = without(points, requests)
    return left[seed(points[left], k, rng).centroids]


# seeding


def test_the_probabilities_are_those_of_kmeans_plus_plus(monkeypatch):
    outcomes = distribution(monkeypatch, lambda: seed(POINTS, 2, None).centroids)
    for first in range(5):
        distances = ((POINTS - POINTS[first]) ** 2).sum(axis=1)
        for second in range(5):
            assert outcomes.get((first, second), 0) == pytest.approx(distances[second] / distances.sum() / 5)


def test_draws_follow_the_probabilities(monkeypatch):
    rng, runs = np.random.default_rng(0), 4000
    found = [tuple(seed(POINTS, 2, rng).centroids) for _ in range(runs)]
    outcomes = distribution(monkeypatch, lambda: seed(POINTS, 2, None).centroids)
    observed = [found.count(key) for key in outcomes]
    assert sum(observed) == runs
    assert chisquare(observed, [runs * p for p in outcomes.values()]).pvalue > 0.001


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 8))
def test_every_point_is_labelled_with_the_nearest_centroid(seed_of_data, n, k):
    rng = np.random.default_rng(seed_of_data)
    points = rng.integers(0, 4, (n, 2)).astype(float)  # with duplicates and ties
    found = seed(points, k, rng)
    distinct = len(np.unique(points, axis=0))
    assert len(found.centroids) == min(k, distinct)
    distances = ((points[:, None] - points[found.centroids]) ** 2).sum(axis=2)
    assert np.array_equal(found.labels, distances.argmin(axis=1))
    assert found.sizes.sum() == n and (found.sizes > 0).all()


def test_no_points_have_no_centroids():
    empty = seed(np.empty((0, 2)), 3, np.random.default_rng(0))
    assert len(empty.centroids) == len(empty.labels) == len(empty.sizes) == 0


# forgetting


def test_nothing_is_drawn_when_no_centroid_goes():
    found = Seeding(np.array([3, 0]), np.array([1, 1, 1, 0, 0]))
    left, kept = forget(POINTS, found, np.array([1, 4]), 2, None)
    assert kept == 2
    assert left.centroids.tolist() == [3, 0]
    assert left.labels.tolist() == [1, REMOVED, 1, 0, REMOVED]
    assert left.sizes.tolist() == [1, 2]
    assert found.labels.tolist() == [1, 1, 1, 0, 0]


def test_centroids_before_the_first_one_removed_stay():
    rng = np.random.default_rng(5)
    points = rng.normal(size=(40, 3))
    for removed in range(6):
        found = seed(points, 6, rng)
        row = found.centroids[removed]
        left, kept = forget(points, found, np.array([row]), 6, rng)
        assert kept == removed
        assert np.array_equal(left.centroids[:removed], found.centroids[:removed])
        assert row not in left.centroids and left.labels[row] == REMOVED
        rest = np.delete(np.arange(40), row)
        distances = ((points[rest, None] - points[left.centroids]) ** 2).sum(axis=2)
        assert np.array_equal(left.labels[rest], distances.argmin(axis=1))


def test_removed_points_are_never_looked_at():
    rng = np.random.default_rng(5)
    points = rng.normal(size=(30, 3))
    found = seed(points, 4, rng)
    left, _ = forget(points, found, found.centroids[:1], 4, np.random.default_rng(1))
    poisoned = points.copy()
    poisoned[found.centroids[0]] = np.nan
    again, _ = forget(poisoned, left, left.centroids[1:2], 4, np.random.default_rng(2))
    clean, _ = forget(points, left, left.centroids[1:2], 4, np.random.default_rng(2))
    assert np.array_equal(again.centroids, clean.centroids) and np.array_equal(again.labels, clean.labels)


def test_everything_can_be_forgotten():
    rng = np.random.default_rng(0)
    left, kept = forget(POINTS, seed(POINTS, 3, rng), np.arange(5), 3, rng)
    assert kept == 0 and len(left.centroids) == 0 and (left.labels == REMOVED).all()


@pytest.mark.parametrize("requests", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("k", [1, 3, 4])
def test_forgetting_is_exact(monkeypatch, requests, k):
    """Lemma 5.1 for every outcome: no sampling, all draws are gone through."""
    unlearned = distribution(monkeypatch, lambda: seeded_and_forgotten(POINTS, k, requests).centroids)
    retrained = distribution(monkeypatch, lambda: seeded_without(POINTS, k, requests))
    assert sum(retrained.values()) == pytest.approx(1)
    assert total_variation(unlearned, retrained) < 1e-12


@pytest.mark.parametrize("removed", [[0], [1], [0, 4]])
def test_forgetting_is_exact_where_points_coincide(monkeypatch, removed):
    points = np.array([[0.0], [0], [2], [2], [5]])
    unlearned = distribution(monkeypatch, lambda: seeded_and_forgotten(points, 3, [removed]).centroids)
    retrained = distribution(monkeypatch, lambda: seeded_without(points, 3, [removed]))
    assert total_variation(unlearned, retrained) < 1e-12


def test_drawing_all_centroids_anew_is_not_exact(monkeypatch):
    """What the authors' program does, and why the order of the centroids is kept."""

    def redraw_all() -> np.ndarray:
        found = seed(POINTS, 3, None)
        return seeded_without(POINTS, 3, [[0]]) if 0 in found.centroids else found.centroids

    retrained = distribution(monkeypatch, lambda: seeded_without(POINTS, 3, [[0]]))
    assert total_variation(distribution(monkeypatch, redraw_all), retrained) > 0.05


# the same by sampling, with the draws as they are


def sampled(choose, runs: int) -> dict[tuple[int, ...], int]:
    found: dict[tuple[int, ...], int] = {}
    for _ in range(runs):
        key = tuple(int(row) for row in choose())
        found[key] = found.get(key, 0) + 1
    return found


def agreement(k: int, requests, runs: int) -> tuple[float, float]:
    """p-values of χ² over ordered centroids after forgetting: against the exact distribution of retraining, and
    against samples of it. Outcomes expected fewer than five times are counted as one.
    """
    with pytest.MonkeyPatch.context() as patch:
        exact = distribution(patch, lambda: seeded_without(CLOUD, k, requests))
    unlearning, retraining = np.random.default_rng([k, runs, 1]), np.random.default_rng([k, runs, 2])
    forgotten = sampled(lambda: seeded_and_forgotten(CLOUD, k, requests, unlearning).centroids, runs)
    retrained = sampled(lambda: seeded_without(CLOUD, k, requests, retraining), runs)
    assert forgotten.keys() | retrained.keys() <= exact.keys()
    common = [key for key in exact if runs * exact[key] >= 5]
    rare = [key for key in exact if runs * exact[key] < 5]
    table = np.array(
        [[row.get(key, 0) for key in common] + [sum(row.get(key, 0) for key in rare)] for row in (forgotten, retrained)]
    )
    expected = np.array([runs * exact[key] for key in common] + [runs * sum(exact[key] for key in rare)])
    possible = expected > 0
    table, expected = table[:, possible], expected[possible]
    seen = table.any(axis=0)  # what is rare in all may not have come up
    return chisquare(table[0], expected).pvalue, chi2_contingency(table[:, seen]).pvalue


@pytest.mark.parametrize("requests", LARGE_REQUESTS.values(), ids=LARGE_REQUESTS)
def test_samples_of_forgetting_and_retraining_agree(requests):
    assert min(agreement(3, requests, 2_000)) > 0.001


@pytest.mark.statistics
@pytest.mark.parametrize("requests", LARGE_REQUESTS.values(), ids=LARGE_REQUESTS)
@pytest.mark.parametrize("k", [2, 3, 4])
def test_many_samples_of_forgetting_and_retraining_agree(requests, k):
    assert min(agreement(k, requests, 40_000)) > 0.001
