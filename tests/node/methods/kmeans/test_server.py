"""From counts to centres."""

import numpy as np
import pytest

from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.grid import BinGrid
from fedgrove.node.methods.kmeans.server import cluster

GRID = BinGrid.covering(2, 0.01)
COUNTS = BinCounts.of(np.array([[10, 10], [12, 10], [-50, 0], [-50, 3]]), np.array([30, 10, 5, 10]))


def test_bins_stand_for_their_points():
    model = cluster(COUNTS, GRID, 2, np.random.default_rng(0))
    assert model.centres == pytest.approx(np.array([[-0.5, 0.02], [0.105, 0.1]]), abs=1e-6)
    assert model.predict(np.array([[0.0, 0], [-0.4, 0]])).tolist() == [1, 0]


def test_points_spread_over_their_bins():
    model = cluster(COUNTS, GRID, 2, np.random.default_rng(0), uniform=True)
    assert model.centres == pytest.approx(np.array([[-0.5, 0.02], [0.105, 0.1]]), abs=0.005)


@pytest.mark.parametrize("uniform", [False, True])
def test_the_same_generator_gives_the_same_bytes(uniform):
    models = [cluster(COUNTS, GRID, 3, np.random.default_rng(5), uniform=uniform) for _ in range(2)]
    assert models[0].centres.tobytes() == models[1].centres.tobytes()


def test_no_counts_no_centres():
    assert cluster(BinCounts.empty(2), GRID, 3, np.random.default_rng(0)).centres.shape == (0, 2)
