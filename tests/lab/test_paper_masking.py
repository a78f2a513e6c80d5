"""The paper's eq. 12–13, literally."""

import numpy as np
import pytest

from fedgrove_lab.paper_masking import add_partner_noise, draw_noise, paper_mask, subtract_noise, target_layers
from tests.node.masking.rounds import tree_partners

NAMES = ("conv1", "conv2", "dense", "head", "bias")


def models(n: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    generator = np.random.default_rng(seed)
    return [{name: generator.normal(size=(4, 3)) for name in NAMES} for _ in range(n)]


def test_equation_12_subtracts_the_own_noise():
    layers = {"l": np.array([1.0, 2.0]), "other": np.array([5.0])}
    subtract_noise(layers, {"l": np.array([0.25, -1.0])})
    assert layers["l"].tolist() == [0.75, 3.0] and layers["other"].tolist() == [5.0]


def test_equation_13_adds_the_partners_noise_scaled_by_the_sample_counts():
    layers = {"l": np.array([1.0, 2.0])}
    add_partner_noise(layers, 2, {"l": np.array([1.0, -1.0])}, 6)
    assert layers["l"].tolist() == [4.0, -1.0]


def test_both_equations_for_one_pair():
    a, b = models(2)
    noise_a = draw_noise(a, ("conv1", "conv2"), np.random.default_rng(7))
    noise_b = draw_noise(b, ("conv1", "conv2"), np.random.default_rng(8))
    first, second = paper_mask([a, b], (10, 30), ((1,), (0,)), (7, 8))
    for name in ("conv1", "conv2"):
        assert np.allclose(first[name], a[name] - noise_a[name] + 30 / 10 * noise_b[name])
        assert np.allclose(second[name], b[name] - noise_b[name] + 10 / 30 * noise_a[name])
    for name in ("dense", "head", "bias"):
        assert np.array_equal(first[name], a[name]) and np.array_equal(second[name], b[name])


@pytest.mark.parametrize(("kappa", "count"), [(0.5, 2), (1.0, 5), (0.2, 1), (0.19, 0)])
def test_the_number_of_target_layers_is_rounded_down(kappa, count):
    assert target_layers(NAMES, kappa) == NAMES[:count]


@pytest.mark.parametrize("n", [2, 3, 7, 16])
@pytest.mark.parametrize("kappa", [0.5, 1.0])
def test_the_weighted_average_cancels_all_noise_up_to_rounding(n, kappa):
    plain, samples = models(n), [10 * (p + 1) for p in range(n)]
    masked = paper_mask(plain, samples, tree_partners(n), list(range(n)), kappa)
    for name in NAMES:
        expected = np.average([model[name] for model in plain], axis=0, weights=samples)
        assert np.allclose(np.average([model[name] for model in masked], axis=0, weights=samples), expected)
    assert not np.allclose(masked[0]["conv1"], plain[0]["conv1"], atol=0.1)


def test_noise_is_standard_normal_and_its_seed_fixes_it():
    layers = {"l": np.zeros((200, 200))}
    noise = draw_noise(layers, ("l",), np.random.default_rng(1))["l"]
    assert abs(noise.mean()) < 0.02 and abs(noise.std() - 1) < 0.02
    assert np.array_equal(noise, draw_noise(layers, ("l",), np.random.default_rng(1))["l"])


def test_who_knows_the_public_numbers_takes_the_noise_off():
    """Why the default mode exists: the seeds are VRF outputs, which are on the ledger."""
    plain, samples, partners, seeds = models(4), (10, 20, 30, 40), tree_partners(4), (5, 6, 7, 8)
    masked = paper_mask(plain, samples, partners, seeds)
    blank = [{name: np.zeros((4, 3)) for name in NAMES} for _ in range(4)]
    noise = paper_mask(blank, samples, partners, seeds)
    assert all(np.allclose(masked[p][name] - noise[p][name], plain[p][name]) for p in range(4) for name in NAMES)
