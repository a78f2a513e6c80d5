"""Commitments compared with sums of multiples, one by one; their generators; their homomorphism."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.curve import ORDER, G, multi_product
from fedgrove.node.masking.bounds import group

VALUES = st.lists(st.one_of(st.integers(-(2**40), 2**40), st.integers(-ORDER, ORDER)), max_size=5)
BLINDINGS = st.integers(-1, ORDER)


def oracle(values, blinding):
    points = [group.WORDS[index] for index in range(len(values))]
    return multi_product([*points, group.BLINDING[0]], [*values, blinding])


@settings(max_examples=50, deadline=None)
@given(VALUES, BLINDINGS)
def test_a_commitment_is_the_sum_of_multiples(values, blinding):
    assert group.commit(values, blinding) == oracle(values, blinding)


@settings(max_examples=20, deadline=None)
@given(VALUES, VALUES, BLINDINGS, BLINDINGS, st.integers(-(2**64), 2**64))
def test_commitments_add_up_as_vectors_do(left, right, r, s, factor):
    size = max(len(left), len(right))
    left, right = (values + [0] * (size - len(values)) for values in (left, right))
    total = [a + factor * b for a, b in zip(left, right, strict=True)]
    assert group.commit(left, r) + group.commit(right, s) * factor == group.commit(total, r + factor * s)


@pytest.mark.parametrize("dtype", [np.uint32, np.int64, np.uint64, np.int8])
def test_arrays_are_read_as_integers(dtype):
    limits = np.iinfo(dtype)
    values = np.array([limits.min, limits.max, 1, 0], dtype)
    assert group.commit(values, 5) == oracle([int(limits.min), int(limits.max), 1, 0], 5)


def test_generators_differ_from_each_other():
    families = (group.WORDS, group.SQUARES, group.PROJECTIONS, group.VALUE, group.BLINDING)
    points = list(chain.from_iterable((family[i] for i in range(20)) for family in families))
    assert len({*points, *(-point for point in points), G}) == 2 * len(points) + 1


def test_generators_never_change():
    """Others' commitments are to the same ones."""
    assert [family[3].to_bytes().hex() for family in (group.WORDS, group.SQUARES, group.PROJECTIONS)] == GOLDEN
    assert [family[0].to_bytes().hex() for family in (group.VALUE, group.BLINDING)] == ALONE


GOLDEN = [
    "020fb42890cf3680fb717202bf7bcbf17f52ff5a0bf731fce7ece1ddce41dd6f96",
    "0205c3f8b2205e7651ff009bf95319018bf914901cdd8a83769cfaadd57e063021",
    "02187069ba0146eca90f198f3bb6cb5b21283065873d77a83d01298a34f4d7376a",
]
ALONE = [
    "02a0d900ea8b6467ebe6914c440e02cf333c6c1cb3a778fd1adb8a373f31e6b195",
    "02a2250adc45f9f4d75dd258a4cd8cec14e9d4d6fd60bb3246ee78c34c7407855a",
]
