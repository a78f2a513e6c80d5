"""Label shares: each member weighs the same, honest sums are never doubted, sums that lack somebody's labels are."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.node.methods.procfl.labels import SHARE, contradicts, is_sum_of_shares, label_shares
from fedgrove.node.methods.procfl.similarity import in_the_clear

COUNTS = st.lists(st.integers(0, 5000), min_size=4, max_size=4).filter(any).map(np.array)
GROUPS = st.lists(COUNTS, min_size=3, max_size=8)


@given(COUNTS)
def test_shares_add_up_and_are_parts_of_the_whole(counts):
    shares = label_shares(counts)
    assert shares.sum() == SHARE and np.abs(shares - SHARE * counts / counts.sum()).max() < 1
    assert not shares[counts == 0].any() or (counts == 0).all()


def test_who_claims_more_samples_weighs_no_more():
    few, many = np.array([10, 0]), np.array([0, 3000])
    assert (label_shares(few) + label_shares(many)).tolist() == [SHARE, SHARE]


@pytest.mark.parametrize(
    ("found", "members", "fine"),
    [
        ((SHARE, 2 * SHARE), 3, True),
        ((SHARE, 2 * SHARE), 2, False),
        ((0, 0), 0, False),
        ((4 * SHARE, (1 << 32) - SHARE), 3, False),  # less than nothing of one label, in words
        ((), 3, False),
    ],
)
def test_a_sum_has_as_much_as_its_members(found, members, fine):
    assert is_sum_of_shares(found, members) == fine


def alike(counts: list[np.ndarray], own: int) -> list[Fraction]:
    overlaps = in_the_clear(np.array(counts)).overlaps
    sizes = overlaps.diagonal()
    return [Fraction(int(overlaps[own, m]), int(max(sizes[own], sizes[m]))) for m in range(len(counts))]


@given(GROUPS, st.data())
def test_nobody_doubts_an_honest_sum(counts, data):
    own = data.draw(st.integers(0, len(counts) - 1))
    total = np.sum([label_shares(each) for each in counts], axis=0)
    assert not contradicts(label_shares(counts[own]).tolist(), total.tolist(), alike(counts, own))


@pytest.mark.parametrize("left", [0.0, 0.3, 0.6, 0.8])
def test_who_takes_the_others_labels_out_of_the_sum_is_noticed(left):
    """Five members alike; the fifth leaves a part of the others' shares, and the rest is of the label that it wants."""
    counts = [np.array([20, 20, 20, 20, 20])] * 5
    total = np.sum([label_shares(each) for each in counts], axis=0)
    forged = (total * left).astype(int)
    forged[0] += 5 * SHARE - forged.sum()
    assert is_sum_of_shares(forged.tolist(), 5)
    assert contradicts(label_shares(counts[0]).tolist(), forged.tolist(), alike(counts, 0))


def test_who_takes_nothing_out_decides_on_its_own_share_only():
    counts = [np.array([20, 20, 20, 20, 20])] * 4
    total = np.sum([label_shares(each) for each in counts], axis=0) + label_shares(np.array([1, 0, 0, 0, 0]))
    assert not contradicts(label_shares(counts[0]).tolist(), total.tolist(), [Fraction(1)] * 4 + [Fraction(1, 5)])
    assert total.tolist()[0] / total.sum() == pytest.approx(0.36, abs=0.001)
