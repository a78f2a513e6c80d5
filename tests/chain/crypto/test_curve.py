"""The two backends against each other, and what they refuse. Pure Python (ecdsa) is the oracle."""

import ecdsa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.chain.crypto import curve
from fedgrove.chain.crypto.curve import EcdsaCurve, Point, Secp256k1
from fedgrove.common.errors import InvalidContent

NATIVE, ORACLE = Secp256k1(), EcdsaCurve()
BACKENDS = pytest.mark.parametrize("backend", [NATIVE, ORACLE], ids=["coincurve", "ecdsa"])
P, N = NATIVE.field, NATIVE.order
G = NATIVE.public(1)
scalars = st.integers(1, N - 1)


def test_both_backends_name_the_same_curve():
    assert (ORACLE.field, ORACLE.order) == (P, N)
    assert ORACLE.public(1) == G


@settings(max_examples=40, deadline=None)
@given(scalars, scalars)
def test_products_agree(a, b):
    point = NATIVE.public(a)
    assert point == ORACLE.public(a)
    expected = ORACLE.multiply(point, b)
    assert NATIVE.multiply(point, b) == NATIVE.multiply_secret(point, b) == ORACLE.multiply_secret(point, b) == expected


@settings(max_examples=40, deadline=None)
@given(scalars, scalars)
def test_sums_agree(a, b):
    left, right = NATIVE.public(a), NATIVE.public(b)
    if (a + b) % N:
        assert NATIVE.add(left, right) == ORACLE.add(left, right) == NATIVE.public((a + b) % N)
    assert ORACLE.negate(left) == NATIVE.negate(left) == NATIVE.public(N - a)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([2, 3]), st.integers(0, 2**256 - 1))
def test_decoding_agrees_on_points_and_on_what_is_none(prefix, x):
    data = bytes([prefix]) + x.to_bytes(32, "big")
    outcomes = []
    for backend in (NATIVE, ORACLE):
        try:
            outcomes.append(backend.decode(data))
        except InvalidContent:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]
    if outcomes[0] is not None:
        assert outcomes[0].compressed() == data


@BACKENDS
@pytest.mark.parametrize(
    "data",
    [b"", b"\x02" * 32, b"\x00" * 33, b"\x04" + b"\x01" * 32, b"\x02" + (5).to_bytes(32, "big"),
     b"\x02" + (P + 1).to_bytes(32, "big"), b"\x02" + b"\xff" * 32, G.compressed() + b"\x00",
     b"\x04" + G.x.to_bytes(32, "big") + G.y.to_bytes(32, "big")],
)  # fmt: skip
def test_bytes_that_are_no_compressed_point_are_refused(backend, data):
    with pytest.raises(InvalidContent):
        backend.decode(data)


@BACKENDS
@pytest.mark.parametrize("point", [Point(0, 0), Point(5, 1), Point(G.x, G.y ^ 1), Point(G.x + P, G.y), Point(-1, 1)])
def test_coordinates_off_the_curve_are_refused(backend, point):
    for attempt in (
        lambda: backend.multiply(point, 2),
        lambda: backend.multiply_secret(point, 2),
        lambda: backend.add(G, point),
    ):
        with pytest.raises(InvalidContent):
            attempt()


@BACKENDS
@pytest.mark.parametrize("scalar", [0, -1, N, N + 1, 2**256])
def test_scalars_out_of_range_are_refused_without_showing_them(backend, scalar):
    for attempt in (backend.public, lambda k: backend.multiply(G, k), lambda k: backend.multiply_secret(G, k)):
        with pytest.raises(ValueError, match="scalar must lie in") as caught:
            attempt(scalar)
        assert str(scalar) not in str(caught.value).replace("[1, order)", "")


@BACKENDS
def test_a_sum_at_infinity_is_refused(backend):
    with pytest.raises(InvalidContent, match="infinity"):
        backend.add(G, backend.negate(G))


@BACKENDS
def test_a_point_adds_to_itself(backend):
    assert backend.add(G, G) == backend.public(2)


def test_the_fallback_takes_over_when_coincurve_is_missing(monkeypatch):
    monkeypatch.setattr(curve, "coincurve", None)
    curve.default_curve.cache_clear()
    try:
        assert isinstance(curve.default_curve(), EcdsaCurve)
        with pytest.raises(ImportError, match="EcdsaCurve"):
            Secp256k1()
    finally:
        monkeypatch.undo()
        curve.default_curve.cache_clear()
    assert isinstance(curve.default_curve(), Secp256k1)


def test_curves_that_do_not_fit_the_frame_are_refused():
    with pytest.raises(ValueError, match="prime order"):
        EcdsaCurve(ecdsa.NIST384p)
