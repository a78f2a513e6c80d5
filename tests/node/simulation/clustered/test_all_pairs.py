"""ISM by private comparisons equals the formula for every pair of a real split (MNIST where it lies, else digits)."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.idx import parse_idx
from fedgrove.node.learning.partition import partition
from fedgrove.node.learning.settings import PartitionSettings
from fedgrove.node.methods.procfl.sets import label_counts
from fedgrove.node.methods.procfl.similarity import assemble, in_the_clear, pairs
from fedgrove.node.simulation.clustered.all_pairs import AllPairs
from tests.node.methods.procfl.clients import seeded

MNIST_LABELS = Path(__file__).parents[5] / "shared" / "data" / "mnist" / "train-labels-idx1-ubyte.gz"
SPLITS = [PartitionSettings(alpha=0.3), PartitionSettings(kind="shards", per_client=2), PartitionSettings(kind="iid")]
FULL = "FEDGROVE_TEST_ALL_PAIRS" in os.environ


def split_counts(labels: np.ndarray, clients: int, settings: PartitionSettings) -> np.ndarray:
    parts = partition(labels, clients, settings, seed=7)
    return np.array([label_counts(labels[part], 10) for part in parts])


def private(counts: np.ndarray, psi: str):
    run = AllPairs(bytes(32), counts, seeded(1), psi)
    return assemble(len(counts), (run.compare(*pair) for pair in pairs(len(counts))))


@pytest.fixture(scope="module")
def mnist_labels() -> np.ndarray:
    if not MNIST_LABELS.exists():
        pytest.skip("MNIST is not at hand")
    return parse_idx(gzip.decompress(MNIST_LABELS.read_bytes())).astype(np.int64)


@pytest.mark.parametrize("settings", SPLITS, ids=lambda settings: settings.kind)
def test_every_pair_of_a_split_of_digits(settings):
    counts = split_counts(load_dataset("digits").train().y, 8, settings)
    assert np.array_equal(private(counts, "ecdh").overlaps, in_the_clear(counts).overlaps)


def test_every_pair_of_a_split_of_digits_by_rsa():
    counts = split_counts(load_dataset("digits").train().y[:120], 5, SPLITS[0])
    assert np.array_equal(private(counts, "rsa").overlaps, in_the_clear(counts).overlaps)


@pytest.mark.parametrize("settings", SPLITS, ids=lambda settings: settings.kind)
def test_every_pair_of_a_few_clients_of_mnist(mnist_labels, settings):
    """Clients as they are among 100, 600 samples each; all 4,950 pairs with FEDGROVE_TEST_ALL_PAIRS set."""
    counts = split_counts(mnist_labels, 100, settings)[: 100 if FULL else 6]
    assert np.array_equal(private(counts, "ecdh").overlaps, in_the_clear(counts).overlaps)
