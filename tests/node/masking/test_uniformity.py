"""What leaves a client looks uniform and does not depend on the model (statistical tests with fixed seeds).

1.6 million bytes. The test rejects at 0.1 %; a bias of 1 % in the frequency of byte values gives a noncentrality of
160 and is found with a probability above 99 % (asserted below).
"""

import numpy as np
import pytest
from scipy import stats

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.keys import pair_mask_key, self_mask_key
from fedgrove.node.masking.prg import Mask, apply_masks
from tests.node.masking.rounds import Round

LAYOUT = Layout(("a", "b", "c", "d"), ((100_000,),) * 4)
EVERYBODY = tuple(range(8))
ALPHA = 1e-3


def masked(seed: int, vector: np.ndarray, kappa: float = 1.0) -> tuple[Round, np.ndarray]:
    work = Round.make(8, seed, layout=LAYOUT, kappa=kappa)
    work.vectors[0] = vector
    return work, work.masked(0, EVERYBODY)


def constant(value: float) -> np.ndarray:
    return np.full(LAYOUT.length, value, np.float32)


def byte_counts(words: np.ndarray) -> np.ndarray:
    return np.bincount(words.view(np.uint8), minlength=256)


def test_the_test_would_find_a_bias_of_one_percent():
    critical = stats.chi2.isf(ALPHA, 255)
    assert stats.ncx2.sf(critical, 255, 4 * LAYOUT.length * 0.01**2) > 0.99
    biased = np.random.default_rng(0).integers(0, 256, 4 * LAYOUT.length, np.uint8)
    biased[::50] &= 0x7F
    assert stats.chisquare(np.bincount(biased, minlength=256)).pvalue < ALPHA


@pytest.mark.parametrize("value", [0.0, 8.0, -8.0, 0.123])
def test_bytes_of_a_masked_update_are_uniform(value):
    _, words = masked(1, constant(value))
    assert stats.chisquare(byte_counts(words)).pvalue > ALPHA


@pytest.mark.parametrize("place", range(4))
def test_each_byte_of_a_parameter_is_uniform(place):
    _, words = masked(2, constant(-3.5))
    assert stats.chisquare(np.bincount(words.view(np.uint8)[place::4], minlength=256)).pvalue > ALPHA


def test_bytes_do_not_depend_on_the_model():
    counts = [byte_counts(masked(seed, constant(value))[1]) for seed, value in ((3, 0.0), (4, 7.5))]
    assert stats.chi2_contingency(counts).pvalue > ALPHA


def test_neighbouring_parameters_are_independent():
    _, words = masked(5, constant(1.0))
    pairs = np.histogram2d(words[::2] >> 28, words[1::2] >> 28, bins=16)[0]
    assert stats.chi2_contingency(pairs).pvalue > ALPHA


@pytest.mark.parametrize("honest", range(3))
def test_one_honest_partner_is_enough_even_without_the_self_mask(honest):
    """Take off the self-mask and the masks of all partners but one: what is left is still uniform."""
    work, words = masked(6, constant(2.0))
    partners = work.graph.neighbours[0]
    bare = work.graph.context, work.secrets[0].mask_secret
    known = [p for i, p in enumerate(partners) if i != honest]
    everything = ((0, LAYOUT.length),)
    masks = [
        Mask(pair_mask_key(*bare, work.secrets[p].mask_key, 2, work.graph.client(p)), True, everything) for p in known
    ]
    masks.append(Mask(self_mask_key(work.graph.context, work.secrets[0].self_seed, 2), True, everything))
    apply_masks(words, masks)
    assert stats.chisquare(byte_counts(words)).pvalue > ALPHA
    last = partners[honest]
    key = pair_mask_key(*bare, work.secrets[last].mask_key, 2, work.graph.client(last))
    apply_masks(words, [Mask(key, True, everything)])
    assert len(set(words.tolist())) == 1


def test_tensors_that_not_all_pairs_mask_are_uniform_too():
    _, words = masked(7, constant(0.0), kappa=0.75)
    for tensor in np.split(words, 4):
        assert stats.chisquare(byte_counts(tensor)).pvalue > ALPHA


def test_the_same_model_leaves_differently_every_round():
    first, second = (masked(seed, constant(1.0))[1] for seed in (8, 9))
    assert np.count_nonzero(first == second) <= 3
