"""Hashing to Curve25519: the vectors of RFC 9380, appendix J.4.1; the steps against formulas written another way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.node.methods.procfl.hash_to_curve import A, P, hash_to_curve, map_to_curve

TAG = b"QUUX-V01-CS02-with-curve25519_XMD:SHA-512_ELL2_RO_"
ORDER = 2**252 + 27742317777372353535851937790883648493

PUBLISHED = {
    b"": "2de3780abb67e861289f5749d16d3e217ffa722192d16bbd9d1bfb9d112b98c0",
    b"abc": "2b4419f1f2d48f5872de692b0aca72cc7b0a60915dd70bde432e826b6abc526d",
    b"abcdef0123456789": "68ca1ea5a6acf4e9956daa101709b1eee6c1bb0df1de3b90d4602382a104c036",
    b"q128_" + b"q" * 128: "096e9c8bae6c06b554c1ee69383bb0e82267e064236b3a30608d4ed20b73ac5a",
    b"a512_" + b"a" * 512: "1bc61845a138e912f047b5e70ba9606ba2a447a4dade024c8ef3dd42b7bbc5fe",
}
Q0_OF_ABC = (
    "49bed021c7a3748f09fa8cdfcac044089f7829d3531066ac9e74e0994e05bc7d",
    "16b3d86e056b7970fa00165f6f48d90b619ad618791661b7b5e1ec78be10eac1",
    "4ab256422d84c5120b278cbdfc4e1facc5baadffeccecf8ee9bf3946106d50ca",
)


@pytest.mark.parametrize("message", PUBLISHED)
def test_published_vectors(message):
    assert hash_to_curve(message, TAG)[::-1].hex() == PUBLISHED[message]


def test_the_map_of_a_published_vector():
    field_element, u, v = (int(number, 16) for number in Q0_OF_ABC)
    assert map_to_curve(field_element) == (u, v)


@given(st.integers(0, int(P) - 1))
def test_the_map_gives_points_of_the_curve_and_is_even(field_element):
    u, v = map_to_curve(field_element)
    assert v * v % P == (u**3 + A * u**2 + u) % P
    assert map_to_curve(-field_element % P) == (u, v)


def ladder(scalar: int, u: int) -> int | None:
    """Affine multiplication with x-only differential addition over fractions; None is the point at infinity."""
    x2, z2, x3, z3 = 1, 0, u, 1
    p = int(P)
    for bit in range(scalar.bit_length() - 1, -1, -1):
        if scalar >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
        add_x, add_z = pow(x2 * x3 - z2 * z3, 2, p), u * pow(x2 * z3 - z2 * x3, 2, p) % p
        dbl_x = pow(x2 * x2 - z2 * z2, 2, p)
        dbl_z = 4 * x2 * z2 * (x2 * x2 + A * x2 * z2 + z2 * z2) % p
        x2, z2, x3, z3 = dbl_x, dbl_z, add_x, add_z
        if scalar >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return x2 * pow(z2, -1, p) % p if z2 % p else None


@settings(max_examples=20)
@given(st.binary(max_size=40))
def test_hashes_are_in_the_subgroup_of_prime_order(message):
    u = int.from_bytes(hash_to_curve(message, TAG), "little")
    assert 0 < u < P and ladder(ORDER, u) is None


def test_another_tag_gives_another_point():
    assert hash_to_curve(b"abc", TAG) != hash_to_curve(b"abc", TAG + b"2")
