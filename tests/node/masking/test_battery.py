"""Masked uploads pass a battery of tests for randomness, with differential privacy and without; fixed seeds.

Every test rejects at 10⁻⁵. There are 12 of them, for each of about twenty sequences of 2¹⁶ words: were the seeds drawn
anew, uniform uploads would fail somewhere once in 400 times. What the battery would find is asserted, too.
"""

from random import Random

import numpy as np
import pytest

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.client import mask_words
from fedgrove.node.masking.keys import pair_mask_key
from fedgrove.node.masking.prg import Mask, apply_masks
from fedgrove.node.masking.ring import encode
from fedgrove.node.privacy.grid import RoundTerms
from fedgrove.node.privacy.local import mechanism_for, randomize
from fedgrove.node.privacy.settings import ClientLevelSettings, LocalSettings
from tests.node.masking.battery import BATTERY, failed
from tests.node.masking.rounds import Round
from tests.node.privacy.uploads import noisy_update

LENGTH = 1 << 16
LEVEL = 1e-5
CLIENTS = 8
EVERYBODY = tuple(range(CLIENTS))
LAYOUT = Layout(("model",), ((LENGTH,),))
VECTORS = {
    "zero": np.zeros(LENGTH, np.float32),
    "constant": np.full(LENGTH, -3.5, np.float32),
    "sparse": np.where(np.arange(LENGTH) % 100, 0, 8).astype(np.float32),
    "weights": np.random.default_rng(0).normal(0, 0.05, LENGTH).astype(np.float32),
}


def plain(vector: np.ndarray) -> np.ndarray:
    return encode(vector, LAYOUT, 100, 800, 8.0)


def client_level(vector: np.ndarray) -> np.ndarray:
    settings = ClientLevelSettings(clip=1.0)
    grid = RoundTerms(settings, 1, LENGTH, 1.0, clients=CLIENTS, rate=1.0, sharers=CLIENTS).grid
    return noisy_update(grid, vector, Random("noise").randbytes)


def local(vector: np.ndarray) -> np.ndarray:
    mechanism = mechanism_for(LocalSettings(), LENGTH)
    return plain(np.clip(randomize(mechanism, vector, Random("noise").randbytes), -8, 8))


ENCODINGS = {"none": plain, "client": client_level, "local": local}


def masked(words: np.ndarray, seed: int, position: int = 0) -> np.ndarray:
    work = Round.make(CLIENTS, seed, layout=LAYOUT)
    words = words.copy()
    mask_words(work.graph, position, work.secrets[position], EVERYBODY, words, LAYOUT)
    return words


@pytest.mark.parametrize("mechanism", ENCODINGS)
@pytest.mark.parametrize("vector", VECTORS)
def test_masked_uploads_pass(mechanism, vector):
    assert failed(masked(ENCODINGS[mechanism](VECTORS[vector]), seed=21), LEVEL) == []


@pytest.mark.parametrize("mechanism", ["none", "client"])
def test_what_an_eavesdropper_can_make_of_two_uploads_passes(mechanism):
    """Sums and differences of two clients' uploads, and of one client's in two rounds, with one model throughout."""
    words = ENCODINGS[mechanism](VECTORS["constant"])
    first, partner, later = masked(words, 22), masked(words, 22, position=1), masked(words, 23)
    for pair in (first - partner, first + partner, first - later, first ^ later):
        assert failed(pair, LEVEL) == []


@pytest.mark.parametrize("mechanism", ["none", "client"])
def test_an_upload_does_not_correlate_with_what_it_hides(mechanism):
    """Correlations of 2¹⁶ words have the standard error 0.004; one of 0.03 would be found with a power above 0.9."""
    vector = VECTORS["weights"]
    upload = masked(ENCODINGS[mechanism](vector), seed=24).view(np.int32).astype(np.float64)
    for lag in range(5):
        assert abs(np.corrcoef(np.roll(upload, lag), vector)[0, 1]) < 4.5 * LENGTH**-0.5


# --- the power of the battery ---------------------------------------------------------------------------------------


def test_it_passes_what_is_uniform():
    for seed in range(3):
        assert failed(np.random.default_rng(seed).integers(0, 1 << 32, LENGTH, np.uint32), LEVEL) == []


@pytest.mark.parametrize("mechanism", ENCODINGS)
def test_it_finds_an_upload_without_masks(mechanism):
    """The noise of differential privacy is no mask: it is narrow beside the ring."""
    assert len(failed(ENCODINGS[mechanism](VECTORS["weights"]), LEVEL)) >= 8


def test_it_finds_masks_that_were_used_twice():
    """The difference of two uploads under the same masks is the difference of the models."""
    first, second = (masked(plain(VECTORS[name]), 25) for name in ("weights", "constant"))
    assert len(failed(first - second, LEVEL)) >= 10


def test_it_finds_the_sum_of_all_uploads():
    """There all pair masks cancel; without the self-masks (which the protocol adds) models would lie bare."""
    work, total = Round.make(CLIENTS, 26, layout=LAYOUT), np.zeros(LENGTH, np.uint32)
    for position in EVERYBODY:
        total += plain(VECTORS["weights"])
        for partner in work.graph.neighbours[position]:
            numbers = work.graph.client(position), work.graph.client(partner)
            secret, public = work.secrets[position].mask_secret, work.secrets[partner].mask_key
            key = pair_mask_key(work.graph.context, secret, public, *numbers)
            apply_masks(total, [Mask(key, partner < position, ((0, LENGTH),))])
    assert len(failed(total, LEVEL)) >= 10


def _uniform() -> np.ndarray:
    return np.random.default_rng(5).integers(0, 1 << 32, LENGTH, np.uint32)


def _leaning_bit() -> np.ndarray:
    words = _uniform()
    words[::25] |= 1 << 7  # this bit is one in 52 % of the words
    return words


def _bare_tensor() -> np.ndarray:
    words = _uniform()
    words[-LENGTH // 100 :] = plain(VECTORS["weights"])[-LENGTH // 100 :]
    return words


def _echo() -> np.ndarray:
    words = _uniform()
    words[1::8] = ~words[::8]  # one word in eight is the complement of the one before it
    return words


def _even() -> np.ndarray:
    return np.random.default_rng(6).permutation(np.arange(LENGTH, dtype=np.uint32) * np.uint32((1 << 32) // LENGTH))


FLAWS = {
    _leaning_bit: "places",
    _bare_tensor: "byte_values",
    _echo: "serial_correlation",
    _even: "byte_values",
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_it_finds_small_flaws(flaw):
    assert FLAWS[flaw] in failed(flaw(), LEVEL)


def test_every_test_finds_something_that_uniform_words_do_not_have():
    """A counter, and words of which one bit in twenty is stuck: each test of the battery rejects one of them."""
    counter = np.arange(LENGTH, dtype=np.uint32)
    stuck = _uniform() | np.uint32(1)
    assert {*failed(counter, LEVEL), *failed(stuck, LEVEL)} == set(BATTERY)
