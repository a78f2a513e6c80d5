"""Intersection by Diffie–Hellman: correct, silent about everything else, deaf to hostile messages."""

import hashlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.keys import agree
from fedgrove.node.methods.procfl.ecdh import _TAG, Comparison, EcdhClient, _tag, new_secret
from fedgrove.node.methods.procfl.hash_to_curve import P
from fedgrove.node.methods.procfl.messages import digest
from fedgrove.node.methods.procfl.similarity import Intersection
from tests.node.methods.procfl.clients import COMMON, LEFT, RIGHT, SESSION, chi, items_of, seeded, with_items

HEADER = 80


def client(number: int, counts: np.ndarray, seed: int = 0, session: bytes = SESSION) -> EcdhClient:
    return EcdhClient(session, number, chi(counts), new_secret(seeded(100 * seed + number)))


def points_of(message: bytes) -> list[bytes]:
    return items_of(message, HEADER, 32)


def crafted(items: list[bytes]) -> bytes:
    """A blinded set of client 1 with these points."""
    return with_items(client(1, RIGHT).blinded, HEADER, sorted(items))


@pytest.fixture
def pair():
    return client(0, LEFT), client(1, RIGHT)


@pytest.fixture
def comparison(pair):
    return Comparison(SESSION, 0, 1, pair[0].blinded, pair[1].blinded)


COUNTS = st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any)


@settings(max_examples=30)
@given(COUNTS, COUNTS, st.integers(0, 2**32))
def test_the_count_is_that_of_the_sets(left, right, seed):
    first, second = client(3, np.array(left), seed), client(8, np.array(right), seed)
    comparison = Comparison(SESSION, 3, 8, first.blinded, second.blinded)
    found = comparison.count(first.answer(8, second.blinded), second.answer(3, first.blinded))
    common = len(set(chi(np.array(left)).tolist()) & set(chi(np.array(right)).tolist()))
    assert found == Intersection(3, 8, sum(left), sum(right), common)


def test_sizes_of_messages(pair):
    assert len(pair[0].blinded) == 80 + 32 * 8 and len(pair[0].answer(1, pair[1].blinded)) == 80 + 16 * 14


def test_a_restart_gives_the_same_bytes(pair):
    again = client(0, LEFT)
    assert again.blinded == pair[0].blinded
    assert again.answer(1, pair[1].blinded) == pair[0].answer(1, pair[1].blinded) == again.answer(1, pair[1].blinded)


def test_a_common_element_is_blinded_as_x25519_does(pair):
    """Both orders of the two exponents lead to one point: RFC 7748's agreement, point by point."""
    secrets = [new_secret(seeded(number)) for number in (0, 1)]
    twice = Counter(agree(secrets[1], point) for point in points_of(pair[0].blinded))
    twice += Counter(agree(secrets[0], point) for point in points_of(pair[1].blinded))
    assert sorted(Counter(twice.values()).items()) == [(1, 8 + 14 - 2 * COMMON), (2, COMMON)]


def test_blinded_sets_of_one_client_in_two_clusterings_have_nothing_in_common():
    same_secret = client(0, LEFT, session=bytes(32))
    assert not set(points_of(client(0, LEFT).blinded)) & set(points_of(same_secret.blinded))
    assert not set(points_of(client(0, LEFT).blinded)) & set(points_of(client(0, LEFT, seed=1).blinded))


def test_the_order_of_the_elements_leaves_no_trace(pair):
    reversed_set = EcdhClient(SESSION, 0, chi(LEFT)[::-1], new_secret(seeded(0)))
    assert reversed_set.blinded == pair[0].blinded
    assert points_of(pair[0].blinded) == sorted(points_of(pair[0].blinded))


def test_every_blinded_point_is_on_the_curve(pair):
    """A point of the twist would stay there, and so tell which elements it may be."""
    for point in points_of(pair[0].blinded):
        u = int.from_bytes(point, "little")
        assert pow(u**3 + 486662 * u**2 + u, int(P - 1) // 2, int(P)) == 1


def test_the_tags_of_two_pairs_have_nothing_in_common():
    own, second, third = client(0, LEFT), client(1, LEFT), client(2, LEFT)
    tags = [items_of(own.answer(n, other.blinded), HEADER, 16) for n, other in ((1, second), (2, third))]
    assert not set(tags[0]) & set(tags[1])


def test_with_an_exponent_for_each_element_the_answer_would_tell_which_are_common_so_it_goes_to_the_counter(pair):
    """The attack on the protocol of two parties, where the asker gets the tags; without them it has nothing to try."""
    honest, elements = pair[0], chi(RIGHT)
    exponents = [new_secret(seeded(50 + place)) for place in range(len(elements))]
    alone = [EcdhClient(SESSION, 1, elements[[place]], secret) for place, secret in enumerate(exponents)]
    question = crafted([point for one in alone for point in points_of(one.blinded)])
    tags = set(items_of(honest.answer(1, question), HEADER, 16))
    prefix = hashlib.sha256(_TAG + SESSION + digest(honest.blinded, question))
    guesses = [{_tag(prefix, agree(secret, point)) for point in points_of(honest.blinded)} for secret in exponents]
    common = set(chi(LEFT).tolist())
    assert [not tags.isdisjoint(guess) for guess in guesses] == [element in common for element in elements.tolist()]


def test_a_second_question_is_refused_and_the_same_one_is_not(pair):
    pair[0].answer(1, pair[1].blinded)
    pair[0].answer(1, pair[1].blinded)
    with pytest.raises(InvalidContent, match="asked twice"):
        pair[0].answer(1, client(1, LEFT).blinded)


LOW_ORDER = [0, 1, int(P) - 1, 39382357235489614581723060781553021112529911719440698176882885853963445705823]


@pytest.mark.parametrize("u", LOW_ORDER)
def test_points_of_low_order_are_refused(pair, u):
    with pytest.raises(InvalidContent, match="low order"):
        pair[0].answer(1, crafted([u.to_bytes(32, "little"), *points_of(pair[1].blinded)]))


@pytest.mark.parametrize("u", [int(P), int(P) + 9, 2**255 - 1, 2**255 + 9, 2**256 - 1])
def test_coordinates_that_are_not_reduced_are_refused(pair, u):
    with pytest.raises(InvalidContent, match="not reduced"):
        pair[0].answer(1, crafted([u.to_bytes(32, "little"), *points_of(pair[1].blinded)]))


def test_the_largest_coordinates_are_read(pair):
    """p − 2 is reduced; whether it lies on the curve or its twist, it only earns a tag that nobody has."""
    assert len(pair[0].answer(1, crafted([(int(P) - 2).to_bytes(32, "little")]))) == 80 + 16


def test_one_element_in_two_forms_is_refused(pair):
    """P and P + (0, 0), which has order 2: their u-coordinates are u and 1/u."""
    point = points_of(pair[1].blinded)[0]
    twin = pow(int.from_bytes(point, "little"), -1, int(P)).to_bytes(32, "little")
    with pytest.raises(InvalidContent, match="one element in two ways"):
        pair[0].answer(1, crafted([point, twin]))


def malformed(message: bytes, width: int) -> dict[str, bytes]:
    items = items_of(message, HEADER, width)
    return {
        "empty": b"",
        "header only": message[:HEADER],
        "truncated": message[:-1],
        "longer": message + b"\0",
        "kind": b"FGE9" + message[4:],
        "session": message[:4] + bytes(32) + message[36:],
        "transcript": message[:36] + bytes([1]) * 32 + message[68:],
        "sender": message[:68] + bytes([0, 0, 0, 7]) + message[72:],
        "partner": message[:72] + bytes([0, 0, 0, 7]) + message[76:],
        "count": message[:76] + (2**32 - 1).to_bytes(4) + message[80:],
        "no items": with_items(message, HEADER, []),
        "twice": with_items(message, HEADER, sorted([*items, items[0]])),
        "order": with_items(message, HEADER, items[::-1]),
    }


@pytest.mark.parametrize("fault", malformed(client(1, RIGHT).blinded, 32))
def test_malformed_blinded_sets_are_refused(pair, fault):
    with pytest.raises(InvalidContent):
        pair[0].answer(1, malformed(pair[1].blinded, 32)[fault])


@pytest.mark.parametrize("fault", malformed(client(1, RIGHT).blinded, 32))
def test_malformed_answers_are_refused(pair, comparison, fault):
    left, right = pair[0].answer(1, pair[1].blinded), pair[1].answer(0, pair[0].blinded)
    assert comparison.count(left, right).overlap == COMMON
    with pytest.raises(InvalidContent):
        comparison.count(malformed(left, 16)[fault], right)
    with pytest.raises(InvalidContent):
        comparison.count(left, malformed(right, 16)[fault])


def test_too_many_elements_are_refused_before_any_work(pair):
    items = [number.to_bytes(32, "little") for number in range(2, 2**16 + 3)]
    with pytest.raises(InvalidContent, match="65537 items"):
        pair[0].answer(1, crafted(items))


def test_an_answer_to_another_set_is_refused(pair, comparison):
    """Who shows one set to the counter and another to the partner is found."""
    other = client(1, LEFT)
    with pytest.raises(InvalidContent, match="transcript"):
        comparison.count(pair[0].answer(1, other.blinded), pair[1].answer(0, pair[0].blinded))


def test_an_answer_with_tags_left_out_is_refused(pair, comparison):
    left, right = pair[0].answer(1, pair[1].blinded), pair[1].answer(0, pair[0].blinded)
    short = with_items(left, HEADER, items_of(left, HEADER, 16)[:-1])
    with pytest.raises(InvalidContent, match="answers 13 elements, but its partner has 14"):
        comparison.count(short, right)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.integers(0, 336))
def test_no_bytes_are_more_than_refused(pair, noise, cut):
    own = pair[0].blinded
    for hostile in (noise, own[:cut] + noise + own[cut + len(noise) :]):
        try:
            client(1, RIGHT).answer(0, hostile)
        except InvalidContent:
            continue
        assert hostile[:HEADER] == own[:HEADER]


def test_secrets_stay_out_of_sight(pair):
    secret = new_secret(seeded(0))
    assert secret.hex() not in repr(vars(pair[0])) and repr(secret) not in repr(vars(pair[0]))
    with pytest.raises(ValueError, match="not clamped") as found:
        EcdhClient(SESSION, 0, chi(LEFT), bytes(31) + b"\xff")
    assert "ff" not in str(found.value)
