"""Streams over 𝔽_p: uniform, repeatable, gone in the sum."""

import numpy as np

from fedgrove.node.methods.kmeans import field as gf
from fedgrove.node.methods.kmeans import masks
from fedgrove.node.methods.kmeans.masks import apply_masks, stream


def test_masks_cancel_between_two_clients():
    rng = np.random.default_rng(0)
    plain = rng.integers(0, gf.PRIME, (3, 50), gf.ELEMENT)
    ab, bc, ca = (rng.bytes(32) for _ in range(3))
    masked = [
        apply_masks(plain[0], add=[ab], subtract=[ca]),
        apply_masks(plain[1], add=[bc], subtract=[ab]),
        apply_masks(plain[2], add=[ca], subtract=[bc]),
    ]
    assert np.array_equal(gf.total(np.array(masked)), gf.total(plain))
    assert not any((one == other).any() for one, other in zip(masked, plain, strict=True))


def test_a_stream_is_uniform_on_the_field():
    elements = stream(b"k" * 32, 1 << 16)
    assert (elements < gf.PRIME).all()
    for bit in (0, 30, 31, 60):
        ones = ((elements >> np.uint64(bit)) & np.uint64(1)).sum()
        assert abs(int(ones) - (1 << 15)) < 6 * 128  # six standard deviations


def test_a_longer_stream_begins_alike():
    assert np.array_equal(stream(b"k" * 32, 100)[:7], stream(b"k" * 32, 7))


def test_the_word_p_is_passed_over(monkeypatch):
    words = np.array([5, gf.PRIME, (1 << 64) - 1, 6, 7], gf.ELEMENT).tobytes()

    class Cipher:
        def __init__(self, key):
            self.rest = words

        def update(self, zeros):
            part, self.rest = self.rest[: len(zeros)], self.rest[len(zeros) :]
            return part

    monkeypatch.setattr(masks, "keystream", Cipher)
    assert stream(b"", 3).tolist() == [5, 6, 7]
