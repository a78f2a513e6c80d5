"""What a testnet begins with, where its clients cluster points; where they train, ``test_setup`` looks at it."""

import numpy as np

from node.config import FederationConfig
from node.kmeans.datasets import dealt
from node.testnet.beginning import beginning
from node.testnet.layout import TestnetPlan


def test_who_clusters_has_points_and_nobody_evaluates():
    points = dealt("mine", np.random.default_rng(0).uniform(-1, 1, (40, 2)), 3, clients=4)
    begun = beginning(TestnetPlan(clients=4, rounds=50, k=3, seed=7), points, bytes(32))
    assert begun.config.clustering.k == 3 and begun.config.clustering.dimensions == 2 and begun.config.model is None
    assert begun.config.federation.rounds == 50 and begun.config.federation.name == "mine testnet"
    assert FederationConfig.from_bytes(begun.config.to_bytes()) == begun.config
    assert [list(arrays) for arrays in begun.parts] == [["points"]] * 4
    assert np.array_equal(np.concatenate([arrays["points"] for arrays in begun.parts]), points.points)
    assert not begun.test and not begun.shared
