"""Key streams against NIST's published vectors; masks against a stream computed in one piece."""

import numpy as np
import pytest

from fedgrove.node.masking import prg
from fedgrove.node.masking.prg import Mask, apply_masks, keystream

# NIST SP 800-38A, F.5.5 CTR-AES256.Encrypt
KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
COUNTER = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
PLAIN = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
CIPHER = bytes.fromhex(
    "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
    "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
)


def stream(key: bytes, words: int) -> np.ndarray:
    return np.frombuffer(keystream(key).update(bytes(4 * words)), "<u4")


def test_keystream_gives_the_vectors_of_nist():
    assert keystream(KEY, COUNTER).update(PLAIN) == CIPHER


def test_the_counter_starts_at_zero():
    assert keystream(KEY).update(bytes(40)) == keystream(KEY, bytes(16)).update(bytes(40))


@pytest.mark.parametrize("length", [1, 3, prg.CHUNK - 1, prg.CHUNK, prg.CHUNK + 1, 3 * prg.CHUNK + 5])
def test_a_mask_is_the_key_stream_whatever_the_length(length):
    words = np.zeros(length, "<u4")
    apply_masks(words, [Mask(KEY, False, ((0, length),))])
    assert np.array_equal(words, stream(KEY, length))
    apply_masks(words, [Mask(KEY, True, ((0, length),))])
    assert not words.any()


def test_spans_get_the_stream_without_a_gap_and_nothing_else_changes():
    length = 2 * prg.CHUNK + 100
    spans = ((3, 10), (50, prg.CHUNK + 7), (prg.CHUNK + 8, length - 1))
    words = np.full(length, 9, "<u4")
    apply_masks(words, [Mask(KEY, False, spans)])
    expected = np.full(length, 9, "<u4")
    covered = np.concatenate([np.arange(*span) for span in spans])
    expected[covered] += stream(KEY, len(covered))
    assert np.array_equal(words, expected)


def test_many_masks_add_up_in_any_order(monkeypatch):
    monkeypatch.setattr(prg, "_OPEN_STREAMS", 3)
    masks = [Mask(bytes([i]) * 32, i % 3 == 0, ((0, 1000),)) for i in range(10)]
    forth, back = np.zeros(1000, "<u4"), np.zeros(1000, "<u4")
    apply_masks(forth, iter(masks))
    apply_masks(back, reversed(masks))
    expected = sum((-1 if m.subtract else 1) * stream(m.key, 1000).astype(object) for m in masks) % 2**32
    assert forth.tolist() == back.tolist() == list(expected)


def test_a_key_is_not_shown():
    assert KEY.hex() not in repr(Mask(KEY, False, ())) and repr(KEY) not in repr(Mask(KEY, False, ()))
