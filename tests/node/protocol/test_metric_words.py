"""Metrics as words: exact for every sum of members, and what no members can have sent is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.node.protocol.metric_words import MOST_CLIENTS, UNIT, MetricSums, from_words, to_words, words_for

NAMES = ("right", "squared_error", "loss", "squared_loss")
MOST = 2**47 - 1
UNITS = st.integers(-MOST, MOST)


@st.composite
def members(draw):
    """What each of a few members measured, with sums as large as words carry."""
    return [
        MetricSums(
            draw(st.integers(0, 1000)), {"right": draw(st.integers(0, 1000)), **{n: draw(UNITS) for n in NAMES[1:]}}
        )
        for _ in range(draw(st.integers(1, 6)))
    ]


@given(members())
def test_the_sum_of_the_words_is_the_words_of_the_sum(found):
    total = sum((to_words(each, NAMES) for each in found), start=np.zeros(words_for(NAMES), np.uint32))
    assert total.dtype == np.uint32 and words_for(NAMES) == 2 + 3 * 3
    summed = from_words(total, NAMES, len(found))
    assert summed.samples == sum(each.samples for each in found)
    assert summed.sums == {name: sum(each.sums[name] for each in found) for name in NAMES}


@pytest.mark.parametrize("value", [MOST, -MOST, 0])
def test_no_word_overflows_with_as_many_clients_as_there_may_be(value):
    one = to_words(MetricSums(3, dict.fromkeys(NAMES, value) | {"right": 2}), NAMES)
    total = (one.astype(object) * MOST_CLIENTS).astype(np.uint32)  # as so many additions modulo 2³²
    assert from_words(total, NAMES, MOST_CLIENTS).sums["loss"] == value * MOST_CLIENTS


@given(st.floats(-(2.0**22), 2.0**22))
def test_a_sum_is_rounded_to_its_unit(value):
    (units,) = MetricSums.measured(1, {"loss": value}).sums.values()
    assert abs(Fraction(units) * Fraction(UNIT) - Fraction(value)) <= Fraction(UNIT) / 2


@pytest.mark.parametrize(("value", "units"), [(math.nan, MOST), (math.inf, MOST), (1e300, MOST), (-math.inf, -MOST)])
def test_what_no_words_carry_ends_at_their_limits(value, units):
    assert MetricSums.measured(1, {"loss": value}).sums == {"loss": units}


@pytest.mark.parametrize("place", range(1, 7))
def test_a_limb_beyond_what_the_clients_can_have_sent_is_refused(place):
    names = NAMES[2:]
    words = to_words(MetricSums(3, dict.fromkeys(names, 0)), names) * 2
    words[place] = 2 * 0xFFFF
    from_words(words, names, 2)
    words[place] += 1
    with pytest.raises(InvalidContent, match="131071, but at most 131070 are possible"):
        from_words(words, names, 2)


def test_the_journal_gives_back_what_was_measured():
    found = MetricSums(7, {"right": 3, "loss": -MOST, "squared_loss": MOST})
    assert MetricSums.from_bytes(found.to_bytes()) == found
