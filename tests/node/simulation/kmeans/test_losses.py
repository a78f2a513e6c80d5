"""Losses on a line, by hand; and the example of appendix L, where they differ."""

import numpy as np

from fedgrove.node.simulation.kmeans.losses import induced_loss, nearest_loss

POINTS = np.array([[0.0], [2], [10]])
CENTRES = np.array([[1.0], [8]])


def test_each_point_at_its_nearest_centre():
    assert nearest_loss(POINTS, CENTRES) == 1 + 1 + 4


def test_each_point_at_the_centre_of_its_local_cluster():
    assert induced_loss(POINTS, CENTRES, np.array([0, 0, 1])) == 6
    assert induced_loss(POINTS, CENTRES, np.array([0, 1, 1])) == 1 + 36 + 4
