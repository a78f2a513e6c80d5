"""Honest sums are always within the limits, and what is a unit beyond is not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.limits import Limits, check_sum
from fedgrove.node.masking.ring import MAX_BOUND, MIN_BOUND, encode, kept_within, largest_sum

LAYOUT = Layout(("w",), ((2,),))


def words(*values: int) -> np.ndarray:
    return np.array([value % 2**32 for value in values], np.uint32)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=12), st.integers(0, 10**6), st.floats(MIN_BOUND, MAX_BOUND))
def test_values_at_the_bound_add_up_to_the_largest_sum_exactly(samples, lost, bound):
    total = sum(samples) + lost
    extreme = np.array([np.float32(bound), -np.float32(bound)], np.float32)
    summed = sum(encode(extreme, LAYOUT, own, total, bound) for own in samples)
    largest = largest_sum(samples, total, bound)
    assert summed.view(np.int32).tolist() == [largest, -largest]
    check_sum(summed, Limits(largest))
    with pytest.raises(InvalidUpdate, match="honest uploads cannot") as caught:
        check_sum(summed + words(1, 0), Limits(largest))
    assert caught.value.client == 0  # a sum names nobody


def test_the_last_value_has_a_limit_of_its_own():
    limits = Limits(10, last=3)
    check_sum(words(10, -10, 3), limits)
    for beyond in ((11, 0, 0), (0, -11, 0), (0, 0, 4), (0, 0, -4)):
        with pytest.raises(InvalidUpdate):
            check_sum(words(*beyond), limits)


def test_squares_are_summed_exactly():
    most = -(2**31)
    exact = 3 * most**2 + 25
    check_sum(words(most, most, most, 5), Limits(2**31, squares=exact))
    with pytest.raises(InvalidUpdate, match="square of the length"):
        check_sum(words(most, most, most, 5), Limits(2**31, squares=exact - 1))
    check_sum(words(1, 1, 2), Limits(9, last=9, squares=2))  # the last value is not among them


def test_what_is_not_finite_is_left_to_be_refused():
    assert kept_within(np.array([9.0, -9.0, 0.5], np.float32), 8.0).tolist() == [8.0, -8.0, 0.5]
    assert np.isinf(kept_within(np.array([np.inf, 9.0], np.float32), 8.0)).any()
