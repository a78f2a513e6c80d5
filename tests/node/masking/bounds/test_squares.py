"""Sums of squares: every small number, squares and their neighbours, and numbers as large as statements have them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedgrove.node.masking.bounds.squares import four_squares, three_squares

LARGE = st.integers(0, 2**64)


def total(roots):
    assert all(root >= 0 for root in roots)
    return sum(root * root for root in roots)


def test_every_small_number():
    for number in range(70_000):
        assert total(four_squares(number)) == number
        if number % 4 in (1, 2):
            assert total(three_squares(number)) == number


@given(LARGE)
@example(2**64)
@example((2**32 - 1) ** 2)
@example(7 * 4**30)
@example(2**62)
def test_large_numbers_are_four_squares(number):
    assert total(four_squares(number)) == number


@given(st.integers(0, 2**32 - 1), st.data())
def test_room_within_a_limit_is_three_squares(limit, data):
    value = data.draw(st.integers(0, limit))
    room = 4 * value * (limit - value) + 1
    assert total(three_squares(room)) == room


@given(st.integers(0, 2**32), st.integers(-4, 4))
def test_squares_and_their_neighbours(root, distance):
    number = max(root * root + distance, 0)
    assert total(four_squares(number)) == number
    if number % 4 in (1, 2):
        assert total(three_squares(number)) == number


def test_nothing_of_room_is_one_and_zeros():
    assert three_squares(1) == (1, 0, 0)
    assert four_squares(0) == (0, 0, 0, 0)


@given(st.integers(1, 2**40))
def test_room_beyond_a_limit_is_negative(distance):
    for value, limit in ((-distance, 5), (5 + distance, 5)):
        with pytest.raises(ValueError):
            three_squares(4 * value * (limit - value) + 1)


@pytest.mark.parametrize("number", [-1, 0, 3, 4, 7, 2**64, -(2**64) + 1])
def test_other_numbers_are_refused(number):
    with pytest.raises(ValueError):
        three_squares(number)
    if number < 0:
        with pytest.raises(ValueError):
            four_squares(number)
