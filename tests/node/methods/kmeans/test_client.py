"""A client: what it counts, and that removed points are gone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidInput
from fedgrove.node.methods.kmeans.client import KMeansClient
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.grid import BinGrid
from fedgrove.node.methods.kmeans.seeding import REMOVED

GRID = BinGrid.covering(2, 0.05)


@pytest.fixture(params=[0, 5], ids=["seeding", "full"])
def client(request) -> KMeansClient:
    points = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    return KMeansClient(points, 4, GRID, np.random.default_rng(1), iterations=request.param)


def expected_vector(client: KMeansClient) -> BinCounts:
    sizes = np.bincount(client.labels, minlength=len(client.centroids))
    return BinCounts.of(GRID.quantise(client.centroids), sizes)


def test_the_vector_counts_every_point_once(client):
    assert client.vector() == expected_vector(client)
    assert client.vector().total == len(client) == 60


def test_centroids_of_the_seeding_are_points():
    points = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    client = KMeansClient(points, 4, GRID, np.random.default_rng(1))
    assert np.array_equal(client.centroids, points[client.seeding.centroids])


def test_centroids_of_full_clustering_are_means():
    points = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    client = KMeansClient(points, 4, GRID, np.random.default_rng(1), iterations=100)
    for cluster in range(4):
        assert client.centroids[cluster] == pytest.approx(points[client.labels == cluster].mean(axis=0))


def test_a_removed_point_leaves_the_count(client):
    row = np.setdiff1d(np.arange(60), client.seeding.centroids)[:1]
    assert client.forget(row) == 0
    assert client.vector() == expected_vector(client)
    assert client.vector().total == len(client) == 59
    assert row not in client.rows


def test_centroids_that_share_a_bin_share_a_count_and_a_row_named_twice_counts_once():
    points = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    client = KMeansClient(points, 12, BinGrid.covering(2, 1.0), np.random.default_rng(1))
    before, rows = client.vector(), np.setdiff1d(np.arange(40), client.seeding.centroids)[:3]
    assert len(before) <= 9 < len(client.centroids)
    client.forget(np.repeat(rows, 2))
    sizes = np.bincount(client.labels)
    assert client.vector() == BinCounts.of(np.rint(client.centroids), sizes)
    assert (client.vector() - before).total == -3
    assert before.total == 40  # what was sent stays what it was


def test_a_removed_centroid_is_drawn_again(client):
    first, second = client.seeding.centroids[:2]
    assert client.forget(np.array([second])) == 3
    assert client.seeding.centroids[0] == first
    assert client.seeding.labels[second] == REMOVED
    assert client.vector().total == 59


def test_removed_points_are_overwritten(client):
    client.forget(np.array([3, 5]))
    assert np.isnan(client._points[[3, 5]]).all()
    assert np.isfinite(client._points[client.rows]).all()


def test_the_clients_points_are_its_own_copy():
    points = np.zeros((3, 2))
    KMeansClient(points, 1, GRID, np.random.default_rng(0)).forget(np.array([0]))
    assert not points.any()


def test_all_points_can_go(client):
    assert client.forget(np.arange(60)) == 4
    assert len(client) == len(client.vector()) == len(client.centroids) == 0


def test_fewer_points_than_centroids_are_left(client):
    rows = np.setdiff1d(np.arange(60), client.seeding.centroids[:2])
    assert client.forget(rows) == 2
    assert len(client.centroids) == len(client) == 2
    assert client.vector() == expected_vector(client) and client.vector().total == 2


@pytest.mark.parametrize("rows", [[60], [-1], [7], [0, 7]])
def test_a_point_that_is_not_there_is_an_error_and_nothing_is_removed(client, rows):
    client.forget(np.array([7]))
    before = client.vector()
    with pytest.raises(InvalidInput):
        client.forget(np.array(rows))
    assert client.vector() == before


def test_points_must_fit_the_grid():
    with pytest.raises(InvalidInput):
        KMeansClient(np.array([[0.0, 1.5]]), 1, GRID, np.random.default_rng(0))
    with pytest.raises(ValueError, match="2 dimensions"):
        KMeansClient(np.zeros((3, 3)), 1, GRID, np.random.default_rng(0))


@given(st.integers(0, 1 << 30), st.integers(0, 3))
def test_a_client_goes_on_where_it_was(seed, iterations):
    """From its points and centroids alone: the same clusters, and the same draws when it forgets on."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (int(rng.integers(4, 12)), 2))
    client = KMeansClient(points, 3, GRID, np.random.default_rng(seed), iterations=iterations)
    client.forget(rng.permutation(len(points))[:2])
    again = KMeansClient(
        client.points,
        3,
        GRID,
        np.random.default_rng(7),
        iterations=iterations,
        centroids=client.seeding.centroids,
    )
    assert again.vector() == client.vector()
    assert np.array_equal(again.rows, client.rows) and np.array_equal(again.labels, client.labels)
    other = KMeansClient(
        client.points, 3, GRID, np.random.default_rng(7), iterations=iterations, centroids=client.seeding.centroids
    )
    row = again.rows[:1]
    assert again.forget(row) == other.forget(row) and again.vector() == other.vector()
