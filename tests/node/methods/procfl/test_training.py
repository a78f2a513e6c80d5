"""The two stages: means against numpy, weights of the means of means, and what overlapping sums give away."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from fedgrove.node.base.tensors import Layout
from fedgrove.node.methods.procfl.training import (
    choose_cluster,
    cluster_mean,
    exposed,
    global_mean,
    global_rounds,
    global_weights,
    groups,
    personal_accuracy,
    weighted_mean,
)
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_share_beyond_one_is_refused():
    with pytest.raises(ValueError, match="from 0 to 1"):
        global_rounds(10, 1.1)


def test_means_are_means_in_any_order():
    found = models(7)
    mean = cluster_mean(found, LAYOUT, 8.0)
    assert mean.dtype == np.float32
    assert np.allclose(mean, np.mean(found, axis=0), atol=1e-6)
    assert np.array_equal(mean, cluster_mean(found[::-1], LAYOUT, 8.0))
    assert np.array_equal(mean, global_mean(found, LAYOUT, 8.0))


@given(CLUSTERS)
def test_one_weighted_sum_is_the_mean_of_means(clusters):
    weights = global_weights(clusters)
    assert sum(weights.values()) == 1 and list(weights) == sorted({n for members in clusters for n in members})
    own = dict(enumerate(models(7)))
    single = weighted_mean([own[n] for n in weights], list(weights.values()), LAYOUT, 8.0)
    stepwise = global_mean([cluster_mean([own[n] for n in k], LAYOUT, 8.0) for k in clusters], LAYOUT, 8.0)
    assert np.allclose(single, stepwise, atol=1e-6)


def test_the_least_loss_decides_and_no_number_never_does():
    assert choose_cluster({4: 0.5, 2: 0.5, 1: 0.7}) == 2
    assert choose_cluster({0: float("nan"), 1: float("inf"), 2: 9.0}) == 2
    assert choose_cluster({3: float("nan")}) == 3


def test_personal_accuracy_is_that_on_samples_drawn_like_the_client_s():
    rng = np.random.default_rng(3)
    labels, right = np.repeat(np.arange(3), 400), rng.random(1200) < 0.7
    counts = np.array([30, 0, 10])
    per_label = np.array([right[labels == label].mean() for label in range(3)])
    weights = np.array([counts[label] / (labels == label).sum() for label in labels])
    assert personal_accuracy(counts, per_label) == pytest.approx(np.average(right, weights=weights))


def test_everybody_trains_one_model_in_the_second_stage():
    assert groups({5: 1, 2: 1, 3: 0}, 3) == ((3,), (2, 5), ())


@pytest.mark.parametrize(
    ("sums", "bare"),
    [
        ([(0, 1, 2), (0, 1, 2, 3)], (3,)),
        ([(0, 1), (1, 2), (0, 2)], (0, 1, 2)),
        ([(0, 1), (2, 3), (0, 2)], ()),
        ([(0, 1, 2), (0, 1, 3), (2, 3, 4)], ()),
        ([(0, 1, 2), (0, 1, 3), (2, 3)], (2, 3)),
        ([(4,)], (4,)),
        ([(0, 1, 2, 3)], ()),
    ],
)
def test_overlapping_sums_give_clients_away(sums, bare):
    assert exposed(sums) == bare


@given(CLUSTERS)
def test_exposed_clients_are_those_whose_models_are_determined(clusters):
    """Exactly, by rank over the rationals: adding the unit vector of an exposed client does not raise it."""
    clients = sorted({n for members in clusters for n in members})
    rows = [[Fraction(n in members) for n in clients] for members in clusters]
    expected = [n for n in clients if rank([*rows, [Fraction(m == n) for m in clients]]) == rank(rows)]
    assert list(exposed(clusters)) == expected


def rank(rows: list[list[Fraction]]) -> int:
    rows, found = [list(row) for row in rows], 0
    for column in range(len(rows[0])):
        pivot = next((row for row in rows[found:] if row[column]), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        rows.insert(found, pivot)
        for other in rows[found + 1 :]:
            factor = other[column] / pivot[column]
            other[:] = [value - factor * own for value, own in zip(other, pivot, strict=True)]
        found += 1
    return found


def test_two_sums_that_differ_in_one_client_show_its_model():
    own = models(4)
    small, large = (cluster_mean([own[n] for n in range(size)], LAYOUT, 8.0) for size in (3, 4))
    assert np.allclose(4 * large - 3 * small, own[3], atol=1e-5)
    assert exposed(list(combinations(range(4), 3))) == (0, 1, 2, 3)
