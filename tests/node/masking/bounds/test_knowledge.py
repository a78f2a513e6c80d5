"""Proofs of secrets and shared points: complete, bound to all they say, and forged once a check is off."""

import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.curve import NEUTRAL, ORDER, G, Point
from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking import x_only
from fedgrove.node.masking.bounds import knowledge
from fedgrove.node.masking.bounds.knowledge import KnownSecret, SharedPoint
from fedgrove.node.masking.keys import pair_mask_key, shared_mask_key
from tests.node.masking.rounds import CONTEXT, seeded

secrets = st.integers(1, ORDER - 1).map(lambda number: x_only.canonical(number.to_bytes(32)))
contexts = st.binary(max_size=200)
scalars = st.integers(0, ORDER - 1)

OFF_CURVE = bytes(32)


def key_of(secret: bytes) -> bytes:
    return x_only.point(secret)[1:]


ALICE, BOB, CAROL = (x_only.generate(seeded(number)) for number in (1, 2, 3))
ALICE_KEY, BOB_KEY, CAROL_KEY = map(key_of, (ALICE, BOB, CAROL))
KNOWN = KnownSecret.prove(ALICE, b"context", seeded(4))
SHARED = SharedPoint.prove(ALICE, BOB_KEY, b"context", seeded(4))


def negated(secret: bytes) -> bytes:
    return (ORDER - int.from_bytes(secret)).to_bytes(32)


# --- complete, and bound ----------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(secrets, contexts)
def test_a_known_secret_is_proven(secret, context):
    proof = KnownSecret.prove(secret, context, os.urandom)
    assert proof.verify(key_of(secret), context)
    assert KnownSecret.parse(proof.to_bytes()) == proof and len(proof.to_bytes()) == KnownSecret.BYTES == 64


@settings(max_examples=40, deadline=None)
@given(secrets, secrets, contexts)
def test_either_end_proves_the_point_of_an_edge(one, other, context):
    first, second = key_of(one), key_of(other)
    mine = SharedPoint.prove(one, second, context, os.urandom)
    theirs = SharedPoint.prove(other, first, context, os.urandom)
    assert mine.verify(first, second, context) and theirs.verify(second, first, context)
    assert mine.point == theirs.point == G * (int.from_bytes(one) * int.from_bytes(other))
    assert SharedPoint.parse(mine.to_bytes()) == mine and len(mine.to_bytes()) == SharedPoint.BYTES == 97


@settings(max_examples=20, deadline=None)
@given(secrets, secrets)
def test_a_shared_point_gives_the_mask_of_its_pair(one, other):
    shown = SharedPoint.prove(one, key_of(other), b"", os.urandom)
    assert shown.x == x_only.agree(other, key_of(one))
    expected = pair_mask_key(CONTEXT, other, key_of(one), 4, 2)
    assert shared_mask_key(CONTEXT, shown.x, 2, 4) == expected


def test_the_verifier_repeats_schnorrs_equations():
    """In plain numbers, with all logarithms known: nonce = response − challenge·e for both first messages."""
    e, other = int.from_bytes(ALICE), int.from_bytes(BOB)
    nonce = (SHARED.response - SHARED.challenge * e) % ORDER
    assert nonce and SHARED.point == G * (e * other)
    assert G * SHARED.response - Point.lift_x(ALICE_KEY) * SHARED.challenge == G * nonce
    assert Point.lift_x(BOB_KEY) * SHARED.response - SHARED.point * SHARED.challenge == G * (nonce * other)


@settings(max_examples=60, deadline=None)
@given(secrets, contexts, contexts)
def test_a_proof_of_a_secret_holds_for_its_key_and_context_only(secret, context, other):
    proof = KnownSecret.prove(secret, context, os.urandom)
    assert not proof.verify(key_of(secret), context + b"\0")
    assert proof.verify(key_of(secret), other) == (other == context)
    assert not proof.verify(CAROL_KEY, context) or secret == CAROL


@settings(max_examples=60, deadline=None)
@given(contexts, st.permutations([ALICE_KEY, BOB_KEY, CAROL_KEY]))
def test_a_shared_point_holds_for_its_edge_and_context_only(context, keys):
    """Not for the other end, either: it says who made it."""
    assert SHARED.verify(*keys[:2], context) == ([*keys[:2], context] == [ALICE_KEY, BOB_KEY, b"context"])


def test_nothing_holds_for_a_key_that_is_not_on_the_curve():
    assert not KNOWN.verify(OFF_CURVE, b"context") and not KNOWN.verify(b"", b"context")
    assert not SHARED.verify(OFF_CURVE, BOB_KEY, b"context") and not SHARED.verify(ALICE_KEY, OFF_CURVE, b"context")
    with pytest.raises(InvalidContent):
        SharedPoint.prove(ALICE, OFF_CURVE, b"", os.urandom)


@pytest.mark.parametrize("secret", [negated(ALICE), bytes(32), ORDER.to_bytes(32), ALICE[:31], ALICE + b"\0"])
def test_only_a_canonical_secret_is_taken(secret):
    """With the other secret of a key the statement would be false: the key stands for the point with an even y."""
    with pytest.raises(ValueError, match="secret"):
        KnownSecret.prove(secret, b"", os.urandom)
    with pytest.raises(ValueError, match="secret"):
        SharedPoint.prove(secret, BOB_KEY, b"", os.urandom)


# --- bytes ------------------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 8 * 64 - 1))
def test_every_changed_bit_spoils_a_proof_of_a_secret(bit):
    data = bytearray(KNOWN.to_bytes())
    data[bit // 8] ^= 1 << bit % 8
    assert not holds(lambda: KnownSecret.parse(bytes(data)).verify(ALICE_KEY, b"context"))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 8 * 97 - 1))
def test_every_changed_bit_spoils_a_shared_point(bit):
    data = bytearray(SHARED.to_bytes())
    data[bit // 8] ^= 1 << bit % 8
    assert not holds(lambda: SharedPoint.parse(bytes(data)).verify(ALICE_KEY, BOB_KEY, b"context"))


def holds(verified) -> bool:
    try:
        return verified()
    except InvalidContent:
        return False


@settings(max_examples=200)
@given(st.binary(max_size=130))
def test_hostile_bytes_are_refused_or_read_as_they_are(data):
    for kind in (KnownSecret, SharedPoint):
        try:
            proof = kind.parse(data)
        except InvalidContent:
            continue
        assert proof.to_bytes() == data


@pytest.mark.parametrize(("kind", "proof"), [(KnownSecret, KNOWN), (SharedPoint, SHARED)])
@pytest.mark.parametrize("number", [ORDER, ORDER + 1, 2**256 - 1])
def test_numbers_have_one_encoding(kind, proof, number):
    data = proof.to_bytes()
    for start in (kind.BYTES - 64, kind.BYTES - 32):
        with pytest.raises(InvalidContent, match="below the order"):
            kind.parse(data[:start] + number.to_bytes(32) + data[start + 32 :])


@pytest.mark.parametrize(("kind", "proof"), [(KnownSecret, KNOWN), (SharedPoint, SHARED)])
def test_proofs_have_one_length(kind, proof):
    data = proof.to_bytes()
    for other in (b"", data[:-1], data + b"\0", data * 2):
        with pytest.raises(InvalidContent, match="instead of"):
            kind.parse(other)


@pytest.mark.parametrize("point", [bytes(33), b"\4" + bytes(32), b"\2" + OFF_CURVE, b"\2" + b"\xff" * 32])
def test_only_a_point_can_be_shared(point):
    with pytest.raises(InvalidContent):
        SharedPoint.parse(point + SHARED.to_bytes()[33:])


# --- forgeries, and what stops them -----------------------------------------------------------------------------------


def without_statement(monkeypatch, hidden: bytes) -> None:
    """Leave some bytes of the statement out of the challenge."""
    honest = knowledge._challenge
    monkeypatch.setattr(
        knowledge, "_challenge", lambda statement, *first: honest(statement.replace(hidden, b""), *first)
    )


@settings(max_examples=40, deadline=None)
@given(scalars, scalars)
def test_chosen_numbers_prove_nothing(challenge, response):
    assert not KnownSecret(challenge, response).verify(BOB_KEY, b"context")
    point = Point.lift_x(CAROL_KEY)
    assert not SharedPoint(point, challenge, response).verify(ALICE_KEY, BOB_KEY, b"context")


def simulated() -> KnownSecret:
    """A transcript without any secret: first the numbers, then the first message that fits."""
    return KnownSecret(5, 7)


def test_a_simulated_transcript_is_refused():
    assert not simulated().verify(BOB_KEY, b"context")


def test_it_passes_where_the_challenge_is_not_compared(monkeypatch):
    monkeypatch.setattr(knowledge, "_challenge", lambda statement, *first: 5)
    assert simulated().verify(BOB_KEY, b"context")


def key_after_the_challenge(context: bytes) -> tuple[bytes, KnownSecret]:
    """A key that follows from a transcript: P = (response·G − first)/challenge, first of an unknown logarithm.

    For a hash without the key in it. Numbers are tried until the key's y is even.
    """
    first, response = Point.lift_x(CAROL_KEY), 1
    while True:
        unknown = knowledge._challenge(knowledge._statement(knowledge._SECRET, context, b""), first)
        point = (G * response - first) * pow(unknown, -1, ORDER)
        if point.to_bytes()[:1] == x_only.EVEN:
            return point.to_bytes()[1:], KnownSecret(unknown, response)
        response += 1


def test_a_key_that_follows_from_its_proof_is_refused():
    key, proof = key_after_the_challenge(b"context")
    assert not proof.verify(key, b"context")


def test_it_passes_where_the_key_is_not_hashed(monkeypatch):
    key, proof = key_after_the_challenge(b"context")
    without_statement(monkeypatch, key)
    assert proof.verify(key, b"context")


def test_a_rogue_key_has_no_proof():
    """A key that cancels another's: whoever publishes it knows a secret of the sum only, not of the key."""
    chosen, victim = int.from_bytes(ALICE), Point.lift_x(BOB_KEY)
    rogue = G * chosen - victim
    key = rogue.to_bytes()[1:]
    for secret in (ALICE, negated(ALICE)):
        nonce = 11
        challenge = knowledge._challenge(knowledge._statement(knowledge._SECRET, b"", key), G * nonce)
        assert not KnownSecret(challenge, (nonce + challenge * int.from_bytes(secret)) % ORDER).verify(key, b"")


def test_a_copied_proof_is_refused_and_passes_where_the_context_is_not_hashed(monkeypatch):
    assert not KNOWN.verify(ALICE_KEY, b"another member's")
    assert not SHARED.verify(ALICE_KEY, BOB_KEY, b"another round's")
    monkeypatch.setattr(knowledge, "_statement", lambda label, context, *values: label + b"".join(values))
    known, shared = KnownSecret.prove(ALICE, b"a", os.urandom), SharedPoint.prove(ALICE, BOB_KEY, b"a", os.urandom)
    assert known.verify(ALICE_KEY, b"b") and shared.verify(ALICE_KEY, BOB_KEY, b"b")


def lied(offset: Point) -> SharedPoint:
    """A liar with its secret claims another point, and answers as if that were the one."""
    base, nonce = Point.lift_x(BOB_KEY), 11
    point = base * int.from_bytes(ALICE) + offset
    statement = knowledge._statement(knowledge._SHARED, b"", ALICE_KEY, BOB_KEY, point.to_bytes())
    challenge = knowledge._challenge(statement, G * nonce, base * nonce)
    return SharedPoint(point, challenge, (nonce + challenge * int.from_bytes(ALICE)) % ORDER)


@pytest.mark.parametrize("offset", [G, -G, Point.lift_x(CAROL_KEY), Point.lift_x(BOB_KEY)])
def test_another_point_is_refused(offset):
    assert lied(NEUTRAL).verify(ALICE_KEY, BOB_KEY, b"")
    assert not lied(offset).verify(ALICE_KEY, BOB_KEY, b"")


def test_the_point_of_the_other_sign_is_refused():
    """It has the same x coordinate, so that it would give the same mask: but a proof has one form."""
    assert not replace(SHARED, point=-SHARED.point).verify(ALICE_KEY, BOB_KEY, b"context")


def test_another_point_passes_where_only_the_logarithm_of_the_key_is_checked(monkeypatch):
    honest = knowledge._challenge
    monkeypatch.setattr(knowledge, "_challenge", lambda statement, *first: honest(statement, first[0]))
    assert lied(G).verify(ALICE_KEY, BOB_KEY, b"")


def point_after_the_challenge() -> SharedPoint:
    """For a hash without the point in it: Q = (response·P − second)/challenge, with a second message of any kind."""
    base, nonce = Point.lift_x(BOB_KEY), 11
    second = Point.lift_x(CAROL_KEY)
    statement = knowledge._statement(knowledge._SHARED, b"", ALICE_KEY, BOB_KEY)
    challenge = knowledge._challenge(statement, G * nonce, second)
    response = (nonce + challenge * int.from_bytes(ALICE)) % ORDER
    return SharedPoint((base * response - second) * pow(challenge, -1, ORDER), challenge, response)


def test_a_point_that_follows_from_its_proof_is_refused():
    shown = point_after_the_challenge()
    assert shown.x != x_only.agree(ALICE, BOB_KEY) and not shown.verify(ALICE_KEY, BOB_KEY, b"")


def test_it_passes_where_the_point_is_not_hashed(monkeypatch):
    shown = point_after_the_challenge()
    without_statement(monkeypatch, shown.point.to_bytes())
    assert shown.verify(ALICE_KEY, BOB_KEY, b"")


def test_one_kind_of_proof_is_not_the_other():
    """The same numbers under the other label: labels keep the hashes apart, whatever the context says."""
    context = b"context"
    known = knowledge._statement(knowledge._SECRET, context, ALICE_KEY)
    shared = knowledge._statement(knowledge._SHARED, context, ALICE_KEY)
    assert knowledge._challenge(known, G) != knowledge._challenge(shared, G)
    assert not KnownSecret(SHARED.challenge, SHARED.response).verify(ALICE_KEY, context)


# --- nonces -----------------------------------------------------------------------------------------------------------


def broken(size: int) -> bytes:
    """A source that always says the same."""
    return bytes(size)


def stolen(first, second) -> int | None:
    """What two proofs under one nonce give away."""
    difference = (first.challenge - second.challenge) % ORDER
    return (first.response - second.response) * pow(difference, -1, ORDER) % ORDER if difference else None


def two_proofs(random) -> list[tuple]:
    known = tuple(KnownSecret.prove(ALICE, context, random) for context in (b"a", b"b"))
    shared = tuple(SharedPoint.prove(ALICE, key, b"a", random) for key in (BOB_KEY, CAROL_KEY))
    return [known, shared, (known[0], shared[0])]


def test_a_broken_source_of_random_bytes_gives_no_secret_away():
    for first, second in two_proofs(broken):
        assert stolen(first, second) != int.from_bytes(ALICE)


def test_the_secret_is_lost_where_a_nonce_comes_from_random_bytes_alone(monkeypatch):
    monkeypatch.setattr(knowledge, "_nonce", lambda secret, statement, random: int.from_bytes(random(31)) + 1)
    for first, second in two_proofs(broken):
        assert stolen(first, second) == int.from_bytes(ALICE)


def test_random_bytes_and_the_secret_change_the_nonce():
    nonces = {knowledge._nonce(secret, b"s", seeded(seed)) for secret in (ALICE, BOB) for seed in (1, 2)}
    assert len(nonces) == 4 and all(0 < nonce < ORDER for nonce in nonces)
    assert KnownSecret.prove(ALICE, b"", seeded(5)) == KnownSecret.prove(ALICE, b"", seeded(5))
    assert KnownSecret.prove(ALICE, b"", seeded(5)) != KnownSecret.prove(ALICE, b"", seeded(6))
