"""𝔽_p on arrays against Python's integers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.node.methods.kmeans import field as gf

ELEMENTS = st.one_of(
    st.sampled_from([0, 1, 2, (1 << 30) - 1, 1 << 30, (1 << 31) - 1, 1 << 31, 1 << 60, gf.PRIME - 2, gf.PRIME - 1]),
    st.integers(0, gf.PRIME - 1),
)
VECTORS = st.lists(st.tuples(ELEMENTS, ELEMENTS), min_size=1, max_size=30)


def arrays(pairs):
    return np.array(pairs, gf.ELEMENT).T


@given(VECTORS)
def test_sums_differences_and_products(pairs):
    a, b = arrays(pairs)
    assert gf.add(a, b).tolist() == [(x + y) % gf.PRIME for x, y in pairs]
    assert gf.subtract(a, b).tolist() == [(x - y) % gf.PRIME for x, y in pairs]
    assert gf.multiply(a, b).tolist() == [x * y % gf.PRIME for x, y in pairs]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_any_word_is_reduced(words):
    assert gf.reduce(np.array(words, gf.ELEMENT)).tolist() == [word % gf.PRIME for word in words]


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1))
def test_integers_become_elements(integers):
    assert gf.element(np.array(integers)).tolist() == [integer % gf.PRIME for integer in integers]


@given(st.lists(ELEMENTS, min_size=1, max_size=5), st.integers(1, 40))
def test_powers(bases, count):
    table = gf.powers(np.array(bases, gf.ELEMENT), count)
    assert table.tolist() == [[pow(base, power, gf.PRIME) for power in range(count)] for base in bases]


@given(VECTORS)
def test_totals(pairs):
    columns = np.array(pairs, gf.ELEMENT)
    assert gf.total(columns).tolist() == [sum(column) % gf.PRIME for column in zip(*pairs, strict=True)]


def test_a_total_of_many_large_elements():
    assert gf.total(np.full((5000, 1), gf.PRIME - 1, gf.ELEMENT)).tolist() == [-5000 % gf.PRIME]
