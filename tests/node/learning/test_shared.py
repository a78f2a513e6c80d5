"""The shared set: drawn evenly, equal bytes for equal sets, hostile bytes refused."""

import numpy as np
import pytest
from safetensors.numpy import save

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import ModelSpec
from fedgrove.node.learning.shared import draw_shared, shared_from_bytes, shared_to_bytes

SPEC = ModelSpec("small-cnn", (1, 8, 8), 3)


@pytest.fixture
def samples() -> Samples:
    rng = np.random.default_rng(0)
    return Samples(rng.random((60, 1, 8, 8), dtype=np.float32), np.arange(60, dtype=np.int64) % 3)


def test_draws_the_same_number_of_each_label(samples):
    shared = draw_shared(samples, 5, np.random.default_rng(1))
    assert shared.y.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert len(np.unique(shared.x, axis=0)) == 15


def test_too_few_samples_of_a_class_is_a_sentence(samples):
    with pytest.raises(InvalidInput, match="class 0 has 20 samples, fewer than the 21"):
        draw_shared(samples, 21, np.random.default_rng(1))
    with pytest.raises(InvalidInput, match="at least 1 sample per class"):
        draw_shared(samples, 0, np.random.default_rng(1))


def test_bytes_round_trip_and_are_deterministic(samples):
    shared = draw_shared(samples, 5, np.random.default_rng(1))
    data = shared_to_bytes(shared)
    back = shared_from_bytes(data, SPEC)
    assert np.array_equal(back.x, shared.x) and np.array_equal(back.y, shared.y)
    assert shared_to_bytes(back) == data
    assert data == shared_to_bytes(draw_shared(samples, 5, np.random.default_rng(1)))


X, Y = np.zeros((3, 1, 8, 8), np.float32), np.arange(3, dtype=np.int64)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a safetensors file"),
        (b"\xff" * 64, "not a safetensors file"),
        (save({"x": X, "y": Y})[:-1], "not a safetensors file"),
        (save({"x": X}), "exactly the tensors"),
        (save({"x": X, "y": Y, "z": Y}), "exactly the tensors"),
        (save({"x": X.astype(np.float64), "y": Y}), "x must be float32"),
        (save({"x": X[:, :, :7], "y": Y}), "x must be float32 images of shape"),
        (save({"x": X[:0], "y": Y[:0]}), "x must be float32"),
        (save({"x": X, "y": Y[:2]}), "y must be int64"),
        (save({"x": X, "y": Y.astype(np.int32)}), "y must be int64"),
        (save({"x": X + np.float32("nan"), "y": Y}), "outside"),
        (save({"x": X + 2, "y": Y}), "outside"),
        (save({"x": X - 1, "y": Y}), "outside"),
        (save({"x": X, "y": Y + 1}), "label outside 0 … 2"),
        (save({"x": X, "y": Y - 1}), "label outside 0 … 2"),
    ],
)
def test_hostile_bytes_are_refused(data, message):
    with pytest.raises(DatasetError, match=message):
        shared_from_bytes(data, SPEC)


def test_oversized_bytes_are_refused_unread(monkeypatch):
    monkeypatch.setattr("fedgrove.node.learning.shared.MAX_SHARED_BYTES", 10)
    with pytest.raises(DatasetError, match="more than the 10 allowed"):
        shared_from_bytes(b"\0" * 11, SPEC)
