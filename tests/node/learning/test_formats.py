"""Hostile IDX files and pickles are refused, and the honest forms of a CIFAR-10 batch are read."""

import os
import pickle
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.node.learning.cifar import PIXELS, parse_binary_batch, parse_python_batch
from fedgrove.node.learning.idx import parse_idx


def header(*shape: int, kind: int = 8) -> bytes:
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, kind, len(shape), *shape)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.randoms())
def test_idx_round_trip(shape, random):
    data = random.randbytes(int(np.prod(shape)))
    assert parse_idx(header(*shape) + data).tobytes() == data
    assert parse_idx(header(*shape) + data).shape == tuple(shape)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\x08",
        header(2, 2)[:-1],
        header(2, 2) + b"123",
        header(2, 2) + b"12345",
        header(2, kind=9) + b"12",
        b"\1" + header(2)[1:] + b"12",
        b"\0\0\x08\0",
        header(1, 1, 1, 1, 1) + b"1",
        header(2**32 - 1, 2**32 - 1, 2**32 - 1) + b"1",
        b"\0\0\x08\xff" + b"\xff" * 40,
    ],
)
def test_hostile_idx_is_refused(data):
    with pytest.raises(InvalidContent):
        parse_idx(data)


@given(st.binary(max_size=64))
def test_random_bytes_are_idx_or_refused(data):
    try:
        parse_idx(data)
    except InvalidContent as fault:
        assert "\n" not in str(fault)


@pytest.mark.parametrize("data", [b"", b"\0" * 3072, b"\0" * 3074, b"\x0a" + b"\0" * 3072])
def test_hostile_binary_batches_are_refused(data):
    with pytest.raises(InvalidContent):
        parse_binary_batch(data)


PIXEL_ROWS = np.arange(2 * PIXELS, dtype=np.uint32).astype(np.uint8).reshape(2, PIXELS)
BATCH = {b"batch_label": b"one", b"labels": [3, 9], b"data": PIXEL_ROWS, b"filenames": [b"a.png", b"b.png"]}


def python2_batch() -> bytes:
    """The opcodes that Python 2 and NumPy of 2009 wrote: byte strings, and numpy.core."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85" + text(b"b") + b"\x87Rq\x05"
        b"(K\x01K\x02M\x00\x0c\x86cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") + b"NNN"
        b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + struct.pack("<I", 2 * PIXELS) + PIXEL_ROWS.tobytes() + b"tb"
    )
    labels = b"]q\x06(K\x03K\te"
    return b"\x80\x02}q\x01(" + text(b"data") + array + text(b"labels") + labels + b"u."


@pytest.mark.parametrize("data", [pickle.dumps(BATCH, protocol=2), pickle.dumps(BATCH, protocol=3), python2_batch()])
def test_honest_python_batches_equal_the_binary_form(data):
    images, labels = parse_python_batch(data)
    binary = b"".join(bytes([label]) + row.tobytes() for label, row in zip([3, 9], PIXEL_ROWS, strict=True))
    expected, expected_labels = parse_binary_batch(binary)
    assert np.array_equal(images, expected) and images.dtype == np.uint8
    assert np.array_equal(labels, expected_labels) and labels.tolist() == [3, 9]


class Evil:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def test_a_malicious_pickle_does_not_run(tmp_path):
    trace = tmp_path / "ran"
    for call in ((os.mkdir, (str(trace),)), (eval, (f"__import__('os').mkdir({str(trace)!r})",))):
        for protocol in (0, 1, 2, 3, 4, 5):
            with pytest.raises(InvalidContent, match="not a CIFAR-10 batch"):
                parse_python_batch(pickle.dumps({b"data": Evil(*call), b"labels": [1]}, protocol=protocol))
    assert not trace.exists()
    assert pickle.loads(pickle.dumps(Evil(os.mkdir, (str(trace),)), protocol=2)) is None and trace.exists(), (
        "bait works"
    )


@pytest.mark.parametrize(
    "batch",
    [
        [],
        {},
        {b"data": PIXEL_ROWS},
        {b"data": PIXEL_ROWS, b"labels": [1]},
        {b"data": PIXEL_ROWS, b"labels": [1, 10]},
        {b"data": PIXEL_ROWS, b"labels": [1, -1]},
        {b"data": PIXEL_ROWS, b"labels": [1, True]},
        {b"data": PIXEL_ROWS[:0], b"labels": []},
        {b"data": PIXEL_ROWS[:, 1:], b"labels": [1, 2]},
        {b"data": np.zeros((1, PIXELS), "f4"), b"labels": [1]},
    ],
)
def test_wrong_batches_are_refused(batch):
    with pytest.raises(InvalidContent, match=r"CIFAR-10 batch|label"):
        parse_python_batch(pickle.dumps(batch, protocol=2))


@given(st.binary(max_size=40))
@example(b"")
@example(b"}(U\x04dataT\xff\xff\xff\x7fabc")  # a length beyond the end
@example(b"X\x02\0\0\0\xff\xff")
def test_random_pickles_are_refused(data):
    with pytest.raises(InvalidContent, match="not a CIFAR-10 batch"):
        parse_python_batch(b"\x80\x02" + data)
