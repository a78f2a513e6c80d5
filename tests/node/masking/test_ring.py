"""Encoding in ℤ₂³² against Python's integers and fractions; values that must be refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.ring import MAX_BOUND, MIN_BOUND, decode, encode, fraction_bits, values_beyond

FLAT = Layout(("w",), ((4,),))


@pytest.mark.parametrize(
    ("bound", "bits"), [(8, 27), (7.9, 27), (8.1, 26), (1, 30), (0.5, 31), (1e6, 10), (1e-3, 39), (100, 23)]
)
def test_fraction_bits_follow_from_the_bound(bound, bits):
    assert fraction_bits(bound) == bits


@given(st.floats(MIN_BOUND, MAX_BOUND))
def test_a_weighted_sum_of_values_within_the_bound_fits_31_bits(bound):
    assert 2**29 < Fraction(bound) * 2 ** fraction_bits(bound) <= 2**30


@pytest.mark.parametrize("bound", [0, -1, MAX_BOUND * 2, MIN_BOUND / 2, float("nan"), float("inf")])
def test_an_absurd_bound_is_refused(bound):
    with pytest.raises(ValueError, match="set it from"):
        fraction_bits(bound)


@given(
    st.lists(st.floats(-8, 8, width=32), min_size=4, max_size=4),
    st.integers(1, 2**32 - 1),
    st.integers(0, 2**40),
)
def test_encoding_equals_the_formula_in_python_integers(values, samples, others):
    total = samples + others
    words = encode(np.array(values, np.float32), FLAT, samples, total, 8.0)
    scale = (samples * 2**27) / total
    assert words.tolist() == [round(value * scale) % 2**32 for value in values]


@given(st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4), st.integers(1, 10**6), st.integers(0, 10**6))
def test_decoding_equals_the_formula_in_python_floats(words, samples, others):
    total = samples + others
    mean = decode(np.array(words, "<u4"), samples, total, 8.0)
    signed = [word - 2**32 if word >= 2**31 else word for word in words]
    divisor = (samples * 2**27) / total
    assert mean.tolist() == [np.float32(value / divisor) for value in signed]


@given(st.lists(st.floats(-8, 8, width=32), min_size=4, max_size=4))
def test_one_client_alone_gets_its_model_back_within_half_a_unit(values):
    vector = np.array(values, np.float32)
    assert np.abs(decode(encode(vector, FLAT, 5, 5, 8.0), 5, 5, 8.0) - vector).max() <= 2**-27


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (np.nan, "not finite"),
        (np.inf, "not finite"),
        (-np.inf, "not finite"),
        (8.000001, "over the bound 8"),
        (-9.0, "over the bound 8"),
    ],
)
@pytest.mark.parametrize(("index", "name"), [(0, "bias"), (2, "bias"), (3, "kernel"), (40_000, "kernel")])
def test_a_value_that_cannot_be_encoded_is_an_error_that_names_the_tensor(value, fault, index, name):
    layout = Layout(("bias", "kernel"), ((3,), (200, 200)))
    vector = np.zeros(layout.length, np.float32)
    vector[index] = value
    with pytest.raises(InvalidContent, match=f"tensor '{name}' holds.*{fault}"):
        encode(vector, layout, 1, 2, 8.0)


@given(st.lists(st.floats(-8, 8, width=32), min_size=4, max_size=4), st.integers(1, 10**6), st.integers(0, 10**6))
def test_in_place_gives_the_same_words_and_values_in_the_same_memory(values, samples, others):
    vector, total = np.array(values, np.float32), samples + others
    words = encode(vector, FLAT, samples, total, 8.0)
    mean = decode(words, samples, total, 8.0)
    over = encode(vector, FLAT, samples, total, 8.0, in_place=True)
    assert np.array_equal(over, words) and np.shares_memory(over, vector)
    assert np.array_equal(decode(over, samples, total, 8.0, in_place=True), mean)
    assert np.array_equal(vector, mean)


def test_a_fault_behind_what_is_encoded_in_place_is_named_as_it_is():
    layout = Layout(("bias", "kernel"), ((3,), (200, 200)))
    vector = np.full(layout.length, 7, np.float32)
    vector[-1] = np.nan
    with pytest.raises(InvalidContent, match="tensor 'kernel' holds a value that is not finite"):
        encode(vector, layout, 1, 2, 8.0, in_place=True)


def test_values_beyond_the_bound_are_counted():
    vector = np.zeros(40_000, np.float32)
    vector[[0, 1, 35_000]] = [9, -9, np.inf]
    assert values_beyond(vector, 8.0) == 3 and values_beyond(vector[2:100], 8.0) == 0


def test_the_bound_itself_is_allowed():
    vector = np.array([8, -8, 0, -0.0], np.float32)
    assert encode(vector, FLAT, 1, 1, 8.0).tolist() == [2**30, 2**32 - 2**30, 0, 0]


@pytest.mark.parametrize("vector", [np.zeros(4), np.zeros(3, np.float32), np.zeros((2, 2), np.float32)])
def test_a_vector_of_another_type_or_shape_is_refused(vector):
    with pytest.raises(InvalidContent, match="4 float32 parameters"):
        encode(vector, FLAT, 1, 1, 8.0)
