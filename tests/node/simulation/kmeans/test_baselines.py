"""K-FED, DC-K-means and algorithm 5 find clusters that are there; without counts, sizes are not seen."""

import numpy as np
import pytest

from fedgrove.node.methods.kmeans.datasets import split_by_cluster
from fedgrove.node.simulation.kmeans.baselines import DCKMeans, k_fed, simplified

CENTRES = np.array([[-0.8, 0.0], [0.8, 0], [0, 0.8]])


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(3), 200)
    points = CENTRES[clusters] + rng.normal(0, 0.02, (600, 2))
    return split_by_cluster(points, clusters, 10, 3, rng)


def total(parts) -> int:
    return sum(map(len, parts))


def test_all_find_the_clusters(parts):
    dc = DCKMeans(parts, 3, np.random.default_rng(4))
    plain = simplified(parts, 3, np.random.default_rng(1))
    for result in (k_fed(parts, 3, np.random.default_rng(1)), dc.result(), plain):
        assert [len(label) for label in result.labels] == [len(part) for part in parts]
        assert result.induced_loss(parts) < 3 * total(parts) * 2 * 0.02**2
        distances = np.linalg.norm(result.centres[:, None] - CENTRES, axis=2)
        assert (distances.min(axis=0) < 0.02).all()


def test_without_privacy_a_centroid_weighs_what_its_cluster_counts():
    parts = [np.repeat([[0.0, 0.0], [0.8, 0.0]], [99, 1], axis=0), np.array([[0.1, 0.0], [0.0, 0.9]])]
    result = simplified(parts, 2, np.random.default_rng(0))
    assert result.centres == pytest.approx(np.array([[0, 0.9], [0.9 / 101, 0]]))


def test_k_fed_reaches_for_the_farthest_centroids_where_clients_are_small():
    parts = [np.array([[0.0, 0], [0.01, 0]]), np.array([[0.9, 0.9]]), np.array([[-0.9, 0.5]])]
    result = k_fed(parts, 3, np.random.default_rng(0))
    assert len(result.centres) == 3


def test_dc_kmeans_forgets_by_clustering_a_leaf_again(parts):
    dc = DCKMeans(parts, 3, np.random.default_rng(4))
    dc.forget(2, np.arange(10))
    labels = dc.result().labels
    assert len(labels[2]) == len(parts[2]) - 10 and len(labels[1]) == len(parts[1])
