"""Encoding in ℤ₂³² against Python's integers and fractions; values that must be refused."""

from fractions import Fraction

import numpy as np
import pytest
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.ring import MAX_BOUND, MIN_BOUND, InvalidVector, decode, encode, fraction_bits
from hypothesis import given
from hypothesis import strategies as st

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
    with pytest.raises(InvalidVector, match=f"tensor '{name}' holds.*{fault}"):
        encode(vector, layout, 1, 2, 8.0)


def test_the_bound_itself_is_allowed():
    vector = np.array([8, -8, 0, -0.0], np.float32)
    assert encode(vector, FLAT, 1, 1, 8.0).tolist() == [2**30, 2**32 - 2**30, 0, 0]


@pytest.mark.parametrize("vector", [np.zeros(4), np.zeros(3, np.float32), np.zeros((2, 2), np.float32)])
def test_a_vector_of_another_type_or_shape_is_refused(vector):
    with pytest.raises(InvalidVector, match="4 float32 parameters"):
        encode(vector, FLAT, 1, 1, 8.0)
