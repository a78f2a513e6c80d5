"""Partitions are disjoint, covering, never empty, and the same for the same seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.partition import partition, shards
from fedgrove.node.learning.settings import PartitionSettings

labels_of = st.lists(st.integers(0, 9), min_size=1, max_size=300).map(lambda values: np.array(values, dtype=np.int64))


@settings(max_examples=400, deadline=None)
@given(
    labels_of,
    st.integers(1, 40),
    st.sampled_from(["dirichlet", "iid", "shards", "groups"]),
    st.floats(1e-3, 1e3),
    st.integers(1, 6),
    st.floats(0, 1),
    st.integers(0, 2**63 - 1),
)
def test_every_sample_is_dealt_once_and_the_same_again(labels, clients, kind, alpha, count, others, seed):
    terms = PartitionSettings(kind, alpha=alpha, per_client=count, groups=count, others=others)
    different = len(np.unique(labels))
    fits = {"shards": different <= clients * count <= len(labels), "groups": count <= min(clients, different)}
    if len(labels) < clients or not fits.get(kind, True):
        with pytest.raises(
            InvalidInput, match=r"groups need at least|choose a number in between|clients one: use fewer"
        ):
            partition(labels, clients, terms, seed)
        return
    parts = partition(labels, clients, terms, seed)
    assert len(parts) == clients and all(len(part) > 0 for part in parts)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    assert all(np.array_equal(a, b) for a, b in zip(parts, partition(labels, clients, terms, seed), strict=True))
    if kind == "shards":
        assert all(len(np.unique(labels[part])) <= count for part in parts)


def test_shards_of_even_classes_have_one_size():
    labels = np.repeat(np.arange(10), 60)
    parts = shards(labels, 20, 2, np.random.default_rng(1))
    assert {len(part) for part in parts} == {30}


def test_small_alpha_is_more_skewed_than_large():
    labels = np.repeat(np.arange(10), 200)

    def largest_share(alpha: float) -> float:
        parts = partition(labels, 10, PartitionSettings(alpha=alpha), seed=3)
        return float(np.mean([np.bincount(labels[part]).max() / len(part) for part in parts]))

    assert largest_share(0.1) > 0.4 > 0.15 > largest_share(100.0)


def test_other_seeds_give_other_splits():
    labels = np.repeat(np.arange(10), 20)
    first, second = (partition(labels, 5, PartitionSettings(), seed) for seed in (1, 2))
    assert not all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_more_clients_than_samples_is_a_sentence():
    with pytest.raises(InvalidInput, match="3 samples are too few to give each of 4 clients"):
        partition(np.array([0, 1, 2]), 4, PartitionSettings(), seed=0)
    with pytest.raises(InvalidInput, match="clients must be at least 1"):
        partition(np.array([0, 1, 2]), 0, PartitionSettings(), seed=0)


def test_copies_are_dealt_one_after_the_other():
    labels = np.repeat(np.arange(10), 30)
    parts = partition(labels, 30, PartitionSettings("shards", copies=3), seed=4)
    owners = np.bincount(np.concatenate(parts), minlength=300)
    assert (owners == 3).all()
    assert all((np.bincount(np.concatenate(parts[i : i + 10]), minlength=300) == 1).all() for i in (0, 10, 20))
    assert not all(np.array_equal(parts[i], parts[10 + i]) for i in range(10)), "each copy is dealt anew"
    with pytest.raises(InvalidInput, match="cannot be split equally over 31 clients"):
        partition(labels, 31, PartitionSettings("shards", copies=3), seed=4)


def test_a_group_has_labels_of_its_own_and_a_share_of_all_others():
    labels = np.repeat(np.arange(10), 100)
    parts = partition(labels, 10, PartitionSettings("groups", groups=5, others=0.3), seed=2)
    for client, part in enumerate(parts):
        mains = np.isin(labels[part], (2 * (client % 5), 2 * (client % 5) + 1))
        assert len(part) == 100 and 60 <= mains.sum() <= 90
    alone = partition(labels, 10, PartitionSettings("groups", groups=5, others=0.0), seed=2)
    assert all(len(np.unique(labels[part])) == 2 for part in alone)
