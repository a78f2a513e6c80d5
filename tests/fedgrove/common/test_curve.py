"""The group of secp256k1 compared with the ecdsa package, and its products with plain sums."""

import pickle
import subprocess
import sys
from random import Random

import pytest
from ecdsa import SECP256k1
from ecdsa.ellipticcurve import INFINITY
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.curve import (
    NEUTRAL,
    ORDER,
    FixedPoints,
    G,
    Point,
    fixed_product,
    hash_to_point,
    multi_product,
    sum_of,
)
from fedgrove.common.errors import InvalidContent

SCALARS = st.one_of(st.integers(-(2**260), 2**260), st.integers(-300, 300), st.integers(ORDER - 5, ORDER + 5))
# Where one more digit begins, and where a scalar changes its sign modulo the order.
EDGES = [
    0,
    1,
    63,
    64,
    127,
    128,
    129,
    255,
    256,
    2**254 - 1,
    2**254,
    2**255,
    ORDER // 2,
    ORDER // 2 + 1,
    ORDER - 1,
    ORDER,
]
FIXED = FixedPoints(lambda index: hash_to_point(b"test" + bytes([index])))


def oracle(point) -> bytes:
    """The encoding of a point of the ecdsa package."""
    return bytes(33) if point == INFINITY else point.to_bytes("compressed")


@settings(max_examples=30, deadline=None)
@given(SCALARS, SCALARS)
def test_the_group_is_that_of_ecdsa(left, right):
    one, two = G * left, G * right
    generator = SECP256k1.generator
    assert one.to_bytes() == oracle(generator * (left % ORDER))
    assert (one + two).to_bytes() == oracle(generator * ((left + right) % ORDER))
    assert (one - two).to_bytes() == oracle(generator * ((left - right) % ORDER))
    assert (one * right).to_bytes() == oracle(generator * (left * right % ORDER))
    assert one - two == -(two - one)


def test_the_neutral_element_is_one():
    point = hash_to_point(b"any")
    assert point - point == NEUTRAL == sum_of([]) == point * 0 == G * ORDER == NEUTRAL * 7 == -NEUTRAL
    assert point + NEUTRAL == point == NEUTRAL + point
    assert NEUTRAL.is_neutral and not point.is_neutral
    assert sum_of([point, -point, G, NEUTRAL]) == G
    assert point + point == point * 2


def test_a_point_has_one_encoding():
    for point in (NEUTRAL, G, hash_to_point(b"any"), -hash_to_point(b"any")):
        assert Point.parse(point.to_bytes()) == point == pickle.loads(pickle.dumps(point))
        assert hash(Point.parse(point.to_bytes())) == hash(point)
    assert G != -G and G != NEUTRAL and G.to_bytes() != G
    assert eval(repr(G)) == G


FIELD = 2**256 - 2**32 - 977


@pytest.mark.parametrize(
    "data",
    [
        b"",
        G.to_bytes()[:-1],
        G.to_bytes() + b"\0",
        b"\0" + G.to_bytes()[1:],
        b"\5" + G.to_bytes()[1:],
        b"\6" + G.to_bytes()[1:],
        bytes(32),
        bytes(65),
        b"\1" + bytes(32),
        b"\2" + bytes(32),  # x = 0 is not on the curve
        b"\2" + (5).to_bytes(32),  # nor is x = 5
        b"\2" + (FIELD + 1).to_bytes(32),  # x = 1, not reduced
        b"\2" + b"\xff" * 32,
        b"\4" + bytes(64),
    ],
)
def test_other_bytes_are_refused(data):
    with pytest.raises(InvalidContent):
        Point.parse(data)


def test_lift_x_takes_the_even_y():
    assert Point.lift_x(G.to_bytes()[1:]) == G
    assert Point.lift_x((-G).to_bytes()[1:]) == G
    for x in (bytes(32), bytes(31), b"\xff" * 32, G.to_bytes()):
        with pytest.raises(InvalidContent):
            Point.lift_x(x)


@given(st.integers(1, ORDER - 1))
@settings(max_examples=20, deadline=None)
def test_secret_multiples_are_multiples(secret):
    point = hash_to_point(b"any")
    assert point.times_secret(secret) == point * secret
    assert G.times_secret(secret) == G * secret


@pytest.mark.parametrize("secret", [0, -1, ORDER])
def test_a_secret_multiple_is_never_neutral(secret):
    with pytest.raises(ValueError):
        G.times_secret(secret)
    with pytest.raises(ValueError):
        NEUTRAL.times_secret(1)


def test_points_from_labels_differ_and_are_reproducible():
    points = {hash_to_point(bytes([i])) for i in range(50)}
    assert len(points) == 50
    assert all(point.to_bytes()[0] == 2 for point in points)
    assert hash_to_point(b"golden").to_bytes().hex() == GOLDEN


GOLDEN = "02e2681190df4bacb6f9000695b4a818c0f3fa568e87243ae1a1853ec575e933c8"


@settings(max_examples=60, deadline=None)
@given(st.lists(SCALARS, max_size=6), st.lists(SCALARS, max_size=4))
def test_fixed_products_are_sums_of_multiples(first, second):
    other = FixedPoints(lambda index: G * (index + 1))
    expected = multi_product(
        [FIXED[i] for i in range(len(first))] + [G * (i + 1) for i in range(len(second))], first + second
    )
    assert fixed_product([(FIXED, first), (other, second)]) == expected


@pytest.mark.parametrize("scalar", [sign * edge for edge in EDGES for sign in (1, -1)])
def test_fixed_products_at_the_edges_of_digits(scalar):
    assert fixed_product([(FIXED, [scalar])]) == FIXED[0] * scalar
    assert fixed_product([(FIXED, [scalar, -scalar, 1])]) == (FIXED[0] - FIXED[1]) * scalar + FIXED[2]


def test_a_product_over_many_points():
    random = Random(0)
    scalars = [random.randrange(ORDER) for _ in range(40)]
    assert fixed_product([(FIXED, scalars)]) == multi_product([FIXED[i] for i in range(40)], scalars)


def test_products_of_nothing_are_neutral():
    assert fixed_product([]) == fixed_product([(FIXED, [])]) == multi_product([], []) == NEUTRAL
    assert fixed_product([(FIXED, [0, 0])]) == NEUTRAL


def test_as_many_points_as_scalars():
    with pytest.raises(ValueError):
        multi_product([G], [1, 2])


WITHOUT_COINCURVE = """
import sys
sys.modules["coincurve"] = None
import fedgrove.api, fedgrove.node.cli.main, fedgrove.node.audit.auditor, fedgrove.node.masking.aggregate
import fedgrove.node.roles.client.role, fedgrove.node.roles.coordinator
import fedgrove.chain.crypto.curve
assert isinstance(fedgrove.chain.crypto.curve.default_curve(), fedgrove.chain.crypto.curve.EcdsaCurve)
try:
    import fedgrove.common.curve
except ImportError:
    print("nothing else needs it")
"""


def test_the_rest_of_the_product_runs_without_coincurve():
    """Which has no wheel for the latest Python."""
    command = [sys.executable, "-c", WITHOUT_COINCURVE]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.stdout == "nothing else needs it\n", result.stderr
