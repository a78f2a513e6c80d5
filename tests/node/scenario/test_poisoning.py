"""Attacks: what they do to samples and models, and where the attackers sit."""

import numpy as np
import pytest

from fedgrove.node.learning.samples import Samples
from fedgrove.node.scenario.poisoning import (
    ATTACKS,
    Backdoor,
    GaussianModel,
    LabelFlip,
    ScaledUpdate,
    SignFlip,
    concentrated,
    spread,
    with_trigger,
)

START = np.linspace(-1, 1, 4000, dtype=np.float32)
TRAINED = START + np.float32(0.01)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def samples(rng):
    return Samples(rng.random((40, 1, 8, 8), dtype=np.float32) / 2, np.arange(40) % 10)


def test_label_flipping_maps_every_label_to_its_mirror(samples, rng):
    flipped = LabelFlip().samples(samples, 10, rng)
    assert np.array_equal(flipped.y + samples.y, np.full(40, 9)) and np.array_equal(flipped.x, samples.x)
    assert np.array_equal(LabelFlip().samples(flipped, 10, rng).y, samples.y)


def test_attacks_on_models_change_the_update_alone(rng):
    update = TRAINED - START
    assert np.allclose(SignFlip(2.0).model(TRAINED, START, rng) - START, -2 * update, atol=1e-6)
    assert np.allclose(ScaledUpdate(10.0).model(TRAINED, START, rng) - START, 10 * update, atol=1e-5)
    noise = GaussianModel(3.0).model(TRAINED, START, rng) - START
    assert np.linalg.norm(noise) == pytest.approx(3 * np.linalg.norm(update), rel=0.1)
    assert abs(np.corrcoef(noise, np.arange(4000))[0, 1]) < 0.1


def test_a_backdoor_marks_its_share_and_leaves_the_rest(samples, rng):
    poisoned = Backdoor(target=3, fraction=0.25).samples(samples, 10, rng)
    marked = np.flatnonzero((poisoned.x != samples.x).any(axis=(1, 2, 3)))
    assert len(marked) == 10 and (poisoned.y[marked] == 3).all()
    assert np.array_equal(poisoned.x[marked], with_trigger(samples.x[marked]))
    others = np.setdiff1d(np.arange(40), marked)
    assert np.array_equal(poisoned.y[others], samples.y[others])
    assert samples.x.max() < 1 and (poisoned.x[marked, :, -3:, -3:] == 1).all()


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_keeps_types_and_shapes(name, samples, rng):
    attack = ATTACKS[name]
    assert len(attack.samples(samples, 10, rng)) == 40  # Samples checks types itself
    sent = attack.model(TRAINED, START, rng)
    assert sent.dtype == np.float32 and sent.shape == TRAINED.shape
    touched = not np.array_equal(sent, TRAINED), attack.samples(samples, 10, rng) is not samples
    assert sum(touched) == 1


def test_attackers_are_spread_over_all(rng):
    drawn = [spread(50, 20, rng) for _ in range(200)]
    assert all(len(set(own)) == 20 and list(own) == sorted(own) for own in drawn)
    assert {client for own in drawn for client in own} == set(range(50))


def test_concentrated_attackers_are_the_majority_of_a_cluster_that_keeps_honest_members(rng):
    clusters = [(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), (8, 9, 10, 11, 12), (13, 14, 15, 16, 17, 18, 19)]
    attackers = set(concentrated(clusters, 20, 3, 0.6, rng))
    assert attackers < set(clusters[1]) and len(attackers) == 3
    more = set(concentrated(clusters, 20, 9, 0.6, rng))
    shares = [len(more.intersection(cluster)) / len(cluster) for cluster in clusters]
    assert len(more) == 9 and sum(0.6 <= share < 1 for share in shares) >= 2


def test_so_many_attackers_as_are_asked_for(rng):
    for attackers in range(21):
        assert len(concentrated([(0, 1, 2), (3, 4)], 20, attackers, 0.6, rng)) == attackers
