"""x-only keys: against the vectors of BIP 340, against pure Python, and one library against the other."""

import os

import ecdsa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.node.masking import x_only
from fedgrove.node.masking.x_only import EVEN, ORDER, Libsecp256k1, OpenSsl
from tests.node.masking.rounds import seeded

FIELD = 2**256 - 2**32 - 977
BACKENDS = [OpenSsl(), *([Libsecp256k1()] if x_only.coincurve else [])]

# BIP 340, test-vectors.csv, rows 0 to 3: secrets and public keys
VECTORS = (
    (
        "0000000000000000000000000000000000000000000000000000000000000003",
        "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9",
    ),
    (
        "b7e151628aed2a6abf7158809cf4f3c762e7160f38b4da56a784d9045190cfef",
        "dff1d77f2a671c5f36183726db2341be58feae1da2deced843240f7b502ba659",
    ),
    (
        "c90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b14e5c9",
        "dd308afec5777e13121fa72b9cc1b7cc0139715309b086c960e18fd969774eb8",
    ),
    (
        "0b432b2677937381aef05bb02a66ecd012773062cf3fa2549e44f58ed2401710",
        "25d1dff95105f5253c4022f628a996ad3a0d95fbf21d468a1b33f8c160d8f517",
    ),
)
# rows 5 and 14: not on the curve, not below the field's order
OFF_CURVE = bytes.fromhex("eefdea4cdb677750a420fee807eacf21eb9898ae79b9768766e4faa04a2d4a34")
TOO_LARGE = FIELD.to_bytes(32)

scalars = st.integers(1, ORDER - 1).map(lambda number: number.to_bytes(32))


@pytest.fixture(params=BACKENDS, ids=lambda backend: type(backend).__name__)
def backend(request, monkeypatch):
    monkeypatch.setattr(x_only, "backend", lambda: request.param)
    x_only.is_key.cache_clear()
    yield request.param
    x_only.is_key.cache_clear()


def in_python(secret: bytes, key: bytes | None = None) -> bytes:
    """secret·G, or secret·P for a key's point with even y, compressed, by another library without any C."""
    base = ecdsa.SECP256k1.generator
    if key is not None:
        base = ecdsa.ellipticcurve.PointJacobi.from_bytes(ecdsa.SECP256k1.curve, EVEN + key, order=ORDER)
    return (base * int.from_bytes(secret)).to_bytes("compressed")


@pytest.mark.parametrize(("secret", "key"), VECTORS)
def test_keys_are_those_of_bip_340(backend, secret, key):
    secret = bytes.fromhex(secret)
    assert x_only.point(secret)[1:].hex() == key
    assert x_only.point(x_only.canonical(secret)).hex() == "02" + key


@settings(max_examples=20, deadline=None)
@given(scalars, scalars)
def test_libraries_agree_with_pure_python(one, other):
    key = in_python(other)[1:]
    for backend in BACKENDS:
        assert backend.point(one) == in_python(one)
        assert backend.shared(one, key) == in_python(one, key)[1:]


@settings(max_examples=20, deadline=None)
@given(scalars, scalars)
def test_both_ends_compute_the_same_point(one, other):
    """Not only its x coordinate: of canonical secrets both the points are the ones with even y."""
    one, other = x_only.canonical(one), x_only.canonical(other)
    first, second = x_only.point(one)[1:], x_only.point(other)[1:]
    assert in_python(one, second) == in_python(other, first)
    assert x_only.agree(one, second) == x_only.agree(other, first) == in_python(one, second)[1:]


@settings(max_examples=30, deadline=None)
@given(scalars)
def test_a_key_has_one_canonical_secret(secret):
    negated = (ORDER - int.from_bytes(secret)).to_bytes(32)
    assert x_only.point(secret)[1:] == x_only.point(negated)[1:]
    assert x_only.canonical(secret) == x_only.canonical(negated) in (secret, negated)
    assert [x_only.point(each)[:1] for each in (secret, negated)].count(EVEN) == 1


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.integers(0, 2**256 - 1), st.integers(FIELD - 99, FIELD + 99)))
def test_keys_are_the_x_coordinates_below_the_fields_order(x):
    """By Euler's criterion; libraries must agree, or members would see different graphs."""
    expected = x < FIELD and pow(x**3 + 7, (FIELD - 1) // 2, FIELD) == 1
    assert [backend.is_on_curve(x.to_bytes(32)) for backend in BACKENDS] == [expected] * len(BACKENDS)


@pytest.mark.parametrize("key", [OFF_CURVE, TOO_LARGE, bytes(32), b"\xff" * 32, b"", bytes(31), bytes(33)])
def test_what_is_no_key_is_known_as_such_and_agrees_with_nobody(backend, key):
    assert not x_only.is_key(key)
    with pytest.raises(ValueError):
        x_only.agree(x_only.generate(seeded(1)), key)


def test_a_key_with_a_byte_more_or_less_is_none(backend):
    key = x_only.point(x_only.generate(seeded(1)))[1:]
    assert x_only.is_key(key)
    assert not any(x_only.is_key(each) for each in (key[1:], key[:31], key + b"\0", EVEN + key))


@pytest.mark.parametrize("number", [0, ORDER, ORDER + 1, 2**256 - 1])
def test_numbers_out_of_range_are_no_secrets_and_are_not_shown(backend, number):
    secret, key = number.to_bytes(32), bytes.fromhex(VECTORS[0][1])
    assert not x_only.is_secret(secret)
    for use in (x_only.point, x_only.canonical, lambda secret: x_only.agree(secret, key)):
        with pytest.raises(ValueError, match=r"^it is not a secret on secp256k1$"):
            use(secret)


@pytest.mark.parametrize("secret", [b"", b"\1", b"\1" * 31, b"\1" * 33])
def test_secrets_have_32_bytes(backend, secret):
    assert not x_only.is_secret(secret)
    with pytest.raises(ValueError, match="not a secret"):
        x_only.point(secret)


def test_generated_secrets_are_canonical_and_different(backend):
    secrets = {x_only.generate(os.urandom) for _ in range(12)}
    assert len(secrets) == 12 and all(x_only.point(secret)[:1] == EVEN for secret in secrets)


def test_what_is_drawn_out_of_range_is_drawn_again():
    """Reduced, small numbers would come up twice as often."""
    drawn = iter([bytes(32), ORDER.to_bytes(32), b"\xff" * 32, bytes(31) + b"\3"])
    assert x_only.generate(lambda size: next(drawn)) == x_only.canonical(bytes(31) + b"\3")


def test_openssl_takes_over_where_coincurve_is_missing(monkeypatch):
    x_only.backend.cache_clear()
    try:
        monkeypatch.setattr(x_only, "coincurve", None)
        assert isinstance(x_only.backend(), OpenSsl)
    finally:
        x_only.backend.cache_clear()
