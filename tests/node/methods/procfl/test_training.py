"""The two stages: which rounds are in which, the weights of the means of means, and whose model a client trains."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.node.base.tensors import Layout
from fedgrove.node.methods.procfl.training import (
    choose_cluster,
    global_rounds,
    global_weights,
)
from tests.node.methods.procfl.means import cluster_mean, weighted_mean

LAYOUT = Layout(("w",), ((50,),))
CLUSTERS = st.lists(
    st.sets(st.integers(0, 6), min_size=1).map(lambda group: tuple(sorted(group))), min_size=1, max_size=5
)


def models(count: int, seed: int = 0) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).normal(size=(count, 50)).astype(np.float32))


@pytest.mark.parametrize(
    ("rounds", "share", "count"), [(10, 0.3, 3), (10, 0.25, 3), (10, 0, 0), (10, 1, 10), (7, 0.5, 4)]
)
def test_the_first_stage_has_the_rounds_below_lambda_t(rounds, share, count):
    assert global_rounds(rounds, share) == count == sum(t < Fraction(str(share)) * rounds for t in range(rounds))


@given(CLUSTERS)
def test_one_weighted_sum_is_the_mean_of_means(clusters):
    weights = global_weights(clusters)
    assert sum(weights.values()) == 1 and list(weights) == sorted({n for members in clusters for n in members})
    own = dict(enumerate(models(7)))
    single = weighted_mean([own[n] for n in weights], list(weights.values()), LAYOUT, 8.0)
    stepwise = cluster_mean([cluster_mean([own[n] for n in k], LAYOUT, 8.0) for k in clusters], LAYOUT, 8.0)
    assert np.allclose(single, stepwise, atol=1e-6)


def test_the_least_loss_decides_and_no_number_never_does():
    assert choose_cluster({4: 0.5, 2: 0.5, 1: 0.7}) == 2
    assert choose_cluster({0: float("nan"), 1: float("inf"), 2: 9.0}) == 2
    assert choose_cluster({3: float("nan")}) == 3
