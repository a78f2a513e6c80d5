"""The paper's preparation of data: columns to [0, 1], and clients filled one by one."""

import numpy as np
import pytest

from fedgrove_lab.kmeans.trials import by_column, fill_clients


def test_each_column_is_scaled_to_the_unit_interval():
    assert by_column(np.array([[2.0, -1, 7], [4, 3, 7], [3, 1, 7]])).tolist() == [[0, 0, 0], [1, 1, 0], [0.5, 0.5, 0]]


@pytest.mark.parametrize("each", [1, 2, 3])
def test_clients_are_filled_with_as_many_points_each_from_few_clusters(each):
    clusters = np.repeat(np.arange(3), [300, 200, 100])
    points = np.arange(600.0).reshape(-1, 1)
    parts = fill_clients(points, clusters, 12, each, np.random.default_rng(0))
    assert sorted(np.concatenate(parts).ravel()) == list(range(600))
    assert max(len(set(clusters[part.astype(int).ravel()])) for part in parts) <= each
    assert len(parts) == 12 and max(map(len, parts[:-1])) <= 50
    if each > 1:  # their random shares of one cluster would be whole
        assert len({len(part) for part in parts[:-1]}) < 6
        shares = [np.bincount(clusters[part.astype(int).ravel()]).max() for part in parts[:-1]]
        assert len(set(shares)) > 2


def test_a_large_cluster_reaches_more_clients():
    clusters = np.repeat([0, 1], [900, 100])
    parts = fill_clients(clusters.astype(float).reshape(-1, 1), clusters, 10, 1, np.random.default_rng(0))
    assert sum(part[0, 0] == 0 for part in parts) > 7


def test_clients_that_cannot_be_filled_are_refused():
    with pytest.raises(ValueError, match="cannot be filled from 1 clusters"):
        fill_clients(np.zeros((40, 1)), np.arange(40) % 20, 4, 1, np.random.default_rng(0))
