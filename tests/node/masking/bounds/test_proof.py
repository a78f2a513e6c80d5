"""Proofs of bounds: complete, sound against forgers, and each check with the forgery that passes without it."""

import hashlib
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.curve import ORDER, G, hash_to_point, multi_product
from fedgrove.common.errors import Refused
from fedgrove.node.masking.bounds import proof as product
from fedgrove.node.masking.bounds.group import BLINDING, PROJECTIONS, SQUARES, VALUE, WORDS, commit
from fedgrove.node.masking.bounds.proof import MAX_LIMIT, MAX_WORDS, Statement, proof_bytes, prove, verify
from tests.node.masking.bounds.forger import forge

HALF = pow(2, -1, ORDER)
BLINDINGS = (3**150, 5**100)


def state(values, carries, tau_squared, limits=(), context=b"round 1"):
    """The statement about commitments to these numbers."""
    v, c = commit(values, BLINDINGS[0]), commit(carries, BLINDINGS[1])
    return Statement(context, v, c, tau_squared, tuple(limits), len(values) - len(limits))


def shown(statement, values, carries, seed=0):
    return prove(statement, values, BLINDINGS[0], carries, BLINDINGS[1], Random(seed).randbytes)


def forged(statement, values, carries, roots, **options):
    return forge(statement, values, BLINDINGS[0], carries, BLINDINGS[1], roots, **options)


def accepted(statement, proof):
    (valid,) = verify([statement], [proof])
    return valid


VALUES, CARRIES, LIMITS = (3, -4, 12, 7), (0, -1, 5, 2), (9,)
STATEMENT = state(VALUES, CARRIES, 200, LIMITS)
PROOF = shown(STATEMENT, VALUES, CARRIES)
ROOTS = product._roots(STATEMENT, VALUES)


# Completeness


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_is_within_its_bounds_is_proven(data):
    word = st.one_of(st.integers(-3, 3), st.integers(-(2**20), 2**20), st.integers(-(2**30), 2**30))
    norm = data.draw(st.lists(word, min_size=1, max_size=6))
    limits = data.draw(st.lists(st.one_of(st.integers(0, 3), st.integers(0, MAX_LIMIT)), max_size=3))
    metrics = [data.draw(st.one_of(st.just(0), st.just(limit), st.integers(0, limit))) for limit in limits]
    values = [*norm, *metrics]
    carries = data.draw(st.lists(st.integers(-(2**40), 2**40), min_size=len(values), max_size=len(values)))
    room = data.draw(st.one_of(st.integers(0, 10), st.integers(0, 2**60)))
    statement = state(values, carries, sum(value * value for value in norm) + room, limits)
    proof = shown(statement, values, carries, data.draw(st.integers()))
    assert len(proof) == proof_bytes(len(norm), len(limits))
    assert accepted(statement, proof) and plainly_valid(statement, proof)


@pytest.mark.parametrize("tau", [0, MAX_LIMIT])
def test_bounds_may_be_reached(tau):
    values, carries = [-tau, 0, MAX_LIMIT, 0, 0], [0] * 5
    statement = state(values, carries, tau * tau, (MAX_LIMIT, MAX_LIMIT, 0))
    assert accepted(statement, shown(statement, values, carries))


def test_arrays_are_read_as_integers():
    values, carries = np.array(VALUES, np.int32), np.array(CARRIES, np.int8)
    assert shown(STATEMENT, values, carries) == PROOF == shown(STATEMENT, list(values), list(carries))
    with pytest.raises(TypeError):
        shown(STATEMENT, values.astype(float), carries)


def test_a_blinding_is_taken_modulo_the_order():
    proof = prove(STATEMENT, VALUES, BLINDINGS[0] - ORDER, CARRIES, BLINDINGS[1] + ORDER, Random(0).randbytes)
    assert accepted(STATEMENT, proof)


def test_a_projection_out_of_range_makes_another_attempt(monkeypatch):
    """Which happens once in 2⁵⁶ proofs, here in the first three attempts."""
    original, attempts = product._with_masks, []

    def unlucky(*arguments):
        secrets, masks = original(*arguments)
        attempts.append(1)
        lowest = [0] * 128 if len(attempts) < 3 else [2**112 - 1] * 128
        return (secrets._replace(projections=lowest) if len(attempts) < 4 else secrets), masks

    monkeypatch.setattr(product, "_with_masks", unlucky)
    values, carries = (-5, 5), (0, -7)
    statement = state(values, carries, 60)
    assert accepted(statement, shown(statement, values, carries))
    assert len(attempts) == 4


def test_a_statement_of_a_real_size_in_a_batch():
    random = Random(4)
    statements, proofs = [], []
    for context in (b"a", b"b"):
        values = [random.randrange(-(2**20), 2**20) for _ in range(256)] + [17, 0, 65535]
        carries = [random.randrange(-60, 60) for _ in range(259)]
        statements.append(state(values, carries, 256 * 2**40, (17, 5, 65535), context))
        proofs.append(shown(statements[-1], values, carries))
    assert verify(statements, proofs) == [True, True]
    assert len(proofs[0]) == proof_bytes(256, 3) == 23_238


def test_proofs_never_change():
    """Others verify what this release proves."""
    assert hashlib.sha256(PROOF).hexdigest() == GOLDEN
    assert accepted(STATEMENT, PROOF)


GOLDEN = "63451dd6e6bd85292f4a5dbd06d97d18016a7ae6ec3b774413eaff9533945429"


# Refusals of the prover


@pytest.mark.parametrize(
    ("values", "tau_squared", "limits"),
    [
        ((3, 4), 24, ()),
        ((0, 1), 0, ()),
        ((0, -1), 1, (9,)),
        ((0, 10), 1, (9,)),
        ((0, 1), 1, (0,)),
        ((0, 2**40), 1, (9,)),
    ],
)
def test_nothing_above_its_bound_is_proven(values, tau_squared, limits):
    with pytest.raises(Refused):
        shown(state(values, (0, 0), tau_squared, limits), values, (0, 0))


@pytest.mark.parametrize("carries", [(2**48, 0, 0, 0), (0, -(2**200), 0, 0), (HALF, 0, 0, 0)])
def test_carries_must_be_small_enough_to_be_hidden(carries):
    with pytest.raises(ValueError):
        shown(state(VALUES, carries, 200, LIMITS), VALUES, carries)


def test_vectors_have_the_length_of_the_statement():
    for values, carries in ((VALUES[1:], CARRIES), (VALUES, (*CARRIES, 0)), ((), ())):
        with pytest.raises(ValueError):
            shown(STATEMENT, values, carries)
    with pytest.raises(ValueError):
        verify([STATEMENT], [])


@pytest.mark.parametrize(
    "change",
    [
        {"sketch_words": 0},
        {"sketch_words": MAX_WORDS},
        {"tau_squared": -1},
        {"tau_squared": MAX_LIMIT**2 + 1},
        {"metric_limits": (-1,)},
        {"metric_limits": (MAX_LIMIT + 1,)},
    ],
)
def test_statements_have_ranges(change):
    with pytest.raises(ValueError):
        replace(STATEMENT, **change)


# Other statements, other bytes

OTHERS = [
    replace(STATEMENT, context=b"round 2"),
    replace(STATEMENT, context=b""),
    replace(STATEMENT, tau_squared=201),
    replace(STATEMENT, tau_squared=199),
    replace(STATEMENT, metric_limits=(10,)),
    replace(STATEMENT, metric_limits=(8,)),
    replace(STATEMENT, bounded=STATEMENT.carry, carry=STATEMENT.bounded),
    replace(STATEMENT, bounded=STATEMENT.bounded + WORDS[0]),
    replace(STATEMENT, bounded=STATEMENT.bounded * 2),
    replace(STATEMENT, bounded=-STATEMENT.bounded),
    replace(STATEMENT, carry=STATEMENT.carry + BLINDING[0]),
    replace(STATEMENT, sketch_words=4, metric_limits=()),
]


@pytest.mark.parametrize("other", OTHERS)
def test_a_proof_is_worth_nothing_for_another_statement(other):
    assert not accepted(other, PROOF)


def test_statements_have_encodings_of_their_own():
    encodings = {statement.to_bytes() for statement in [STATEMENT, *OTHERS]}
    assert len(encodings) == 1 + len(OTHERS)


def test_swapped_statements_are_found_in_a_batch():
    statements = [replace(STATEMENT, context=bytes([number])) for number in range(6)]
    proofs = [shown(statement, VALUES, CARRIES, seed) for seed, statement in enumerate(statements)]
    assert verify(statements, proofs) == [True] * 6
    proofs[1], proofs[4] = proofs[4], proofs[1]
    assert verify(statements, proofs) == [True, False, True, True, False, True]
    assert verify(statements, [b""] * 6) == [False] * 6
    assert verify([], []) == []


def test_a_batch_may_mix_sizes():
    statements, proofs = [STATEMENT], [PROOF]
    for values, limits in (((1,), ()), ((1, 2, 3, 4, 5, 6, 1, 1), (1, 1)), ((0, 0), (5,))):
        statements.append(state(values, values, 91, limits))
        proofs.append(shown(statements[-1], values, values))
    assert verify(statements, proofs) == [True] * 4
    proofs[2] = proofs[2][:-1] + bytes([proofs[2][-1] ^ 1])
    assert verify(statements, proofs) == [True, True, False, True]


FIELDS = [33] * 4 + [14] * 128 + [33] * 2 + [32] * ((len(PROOF) - 6 * 33 - 128 * 14) // 32)


def test_a_flipped_bit_in_any_field_is_found():
    random, start = Random(1), 0
    for size in FIELDS:
        changed = bytearray(PROOF)
        changed[start + random.randrange(size)] ^= 1 << random.randrange(8)
        assert not accepted(STATEMENT, bytes(changed)), start
        start += size
    assert start == len(PROOF)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(PROOF) - 1), st.integers(1, 255))
def test_a_changed_byte_anywhere_is_found(place, change):
    changed = bytearray(PROOF)
    changed[place] ^= change
    assert not accepted(STATEMENT, bytes(changed))


@pytest.mark.parametrize(
    "data",
    [b"", PROOF[:-1], PROOF + b"\0", PROOF[:-32], PROOF[32:], bytes(len(PROOF)), b"\xff" * len(PROOF), PROOF[::-1]],
)
def test_other_bytes_are_no_proof(data):
    assert not accepted(STATEMENT, data)


@given(st.binary(max_size=100))
def test_any_bytes_are_answered(data):
    assert not accepted(STATEMENT, data)


# An oracle


def plainly_valid(statement, data):
    """The equations one by one, with no batch, no tables and no arrays."""
    words, roots, numbers = statement.words, statement.roots, statement.numbers
    first, second, third, data = data[:132], data[132:1990], data[1990:2022], data[2022:]
    a, m_v, m_c, m_a = (product.Point.parse(first[i : i + 33]) for i in range(0, 132, 33))
    z = [int.from_bytes(second[i : i + 14]) for i in range(0, 128 * 14, 14)]
    t_1, t_0 = (product.Point.parse(second[i : i + 33]) for i in (128 * 14, 128 * 14 + 33))
    f = [int.from_bytes(data[i : i + 32]) for i in range(0, len(data), 32)]

    hashed = hashlib.sha256(hashlib.sha256(b"fedgrove bounded sums: proof 1" + statement.to_bytes()).digest() + first)
    stream = hashlib.shake_256(hashed.digest()).digest(16 * numbers + 48)
    bits = [byte >> (7 - place) & 1 for byte in stream[:-48] for place in range(8)]
    delta = int.from_bytes(stream[-48:])
    hashed = hashlib.sha256(hashed.digest() + second)
    stream = hashlib.shake_256(hashed.digest()).digest(128 * 16)
    gamma = [int.from_bytes(stream[i : i + 16]) for i in range(0, 128 * 16, 16)]
    e = int.from_bytes(hashlib.shake_256(hashlib.sha256(hashed.digest() + third).digest()).digest(48))

    v, c, s, y, (r, r_c, r_a, r_t) = f[:words], f[words : 2 * words], f[2 * words : numbers], f[numbers:-4], f[-4:]
    w_points, h = [WORDS[i] for i in range(words)], BLINDING[0]
    a_points = [SQUARES[i] for i in range(roots)] + [PROJECTIONS[i] for i in range(128)]
    value = sum(x * x for x in v[: statement.sketch_words]) + sum(x * x for x in s[:4]) - e * e * statement.tau_squared
    for m, limit in enumerate(statement.metric_limits):
        x = v[statement.sketch_words + m]
        condition = sum(root * root for root in s[4 + 3 * m : 7 + 3 * m]) - 4 * x * (e * limit - x) - e * e
        value += delta ** (m + 1) * condition
    row_sums = [sum(b * n for b, n in zip(bits[t * numbers :], f[:numbers], strict=False)) + y[t] for t in range(128)]
    fit = sum(g * (total - e * at) for g, total, at in zip(gamma, row_sums, z, strict=True)) - int.from_bytes(third)
    return (
        multi_product([*w_points, h], [*v, r]) == statement.bounded * e + m_v
        and multi_product([*w_points, h], [*c, r_c]) == statement.carry * e + m_c
        and multi_product([*a_points, h], [*s, *y, r_a]) == a * e + m_a
        and multi_product([VALUE[0], h], [value, r_t]) == t_1 * e + t_0
        and fit % ORDER == 0
        and max(f) < ORDER
    )


def test_the_oracle_refuses():
    changed = PROOF[:-1] + bytes([PROOF[-1] ^ 1])
    assert plainly_valid(STATEMENT, PROOF) and not plainly_valid(STATEMENT, changed)
    assert not plainly_valid(OTHERS[0], PROOF)


# Forgeries


def test_a_forger_with_true_numbers_proves():
    assert accepted(STATEMENT, forged(STATEMENT, VALUES, CARRIES, ROOTS))


def monster(size=2**31):
    """A word far above the bound, with roots of nothing better."""
    values, carries = (size, 0), (0, 0)
    statement = state(values, carries, 100)
    return statement, forged(statement, values, carries, (10, 0, 0, 0))


@pytest.mark.parametrize("size", [11, 2**31, 2**80, 2**111, 2**112, 2**200, HALF, ORDER - 2**31])
def test_a_word_above_the_bound_does_not_pass(size):
    assert not accepted(*monster(size))


def test_without_the_conditions_a_monster_passes(monkeypatch):
    monkeypatch.setattr(product, "_conditions", lambda *_: 0)
    assert accepted(*monster())


def imaginary():
    """A word above the bound, and a root of the negative rest modulo the order: the conditions hold as remainders."""
    for size in range(11, 100):
        rest = (100 - size * size) % ORDER
        if pow(rest, (ORDER - 1) // 2, ORDER) == 1:
            root = square_root(rest)
            values, carries = (size, 0), (0, 0)
            statement = state(values, carries, 100)
            return statement, forged(statement, values, carries, (root, 0, 0, 0))
    raise AssertionError("half of all remainders are squares")


def square_root(number):
    """Tonelli and Shanks modulo the order, which is 1 modulo 64."""
    odd, twos = ORDER - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    other = next(x for x in range(2, 100) if pow(x, (ORDER - 1) // 2, ORDER) == ORDER - 1)
    factor, rest, root = pow(other, odd, ORDER), pow(number, odd, ORDER), pow(number, (odd + 1) // 2, ORDER)
    while rest != 1:
        least, power = 0, rest
        while power != 1:
            least, power = least + 1, power * power % ORDER
        step = pow(factor, 1 << (twos - least - 1), ORDER)
        twos, factor = least, step * step % ORDER
        rest, root = rest * factor % ORDER, root * step % ORDER
    assert root * root % ORDER == number
    return root


def test_roots_modulo_the_order_do_not_pass():
    assert not accepted(*imaginary())


def test_without_the_projections_roots_modulo_the_order_pass(monkeypatch):
    monkeypatch.setattr(product, "_projections_hold", lambda *_: True)
    assert accepted(*imaginary())


def fraction(**options):
    """Half a unit as a carry: what makes a word of 2³¹ look like 0."""
    values, carries = (0, 0), (HALF, 0)
    statement = state(values, carries, 100)
    return statement, forged(statement, values, carries, (10, 0, 0, 0), **options)


def test_a_word_of_half_the_ring_needs_half_a_carry():
    """2³²·C = V + masks − Com(ŷ): with V of zeros and an upload of 2³¹ the carry is −1/2."""
    upload = commit([2**31, 0], 0)
    carry = (commit([0, 0], 7) - upload) * pow(2**32, -1, ORDER)
    assert carry == commit([-HALF, 0], 7 * pow(2**32, -1, ORDER))


@pytest.mark.parametrize("projection", [lambda total: total % 2**112, lambda total: 0, lambda total: 2**112 - 1])
def test_a_fraction_does_not_pass(projection):
    assert not any(accepted(*fraction(seed=seed, projection=projection)) for seed in range(5))


def test_without_the_projections_a_fraction_passes(monkeypatch):
    monkeypatch.setattr(product, "_projections_hold", lambda *_: True)
    assert accepted(*fraction())


@pytest.mark.parametrize("place", range(STATEMENT.numbers))
def test_one_large_number_anywhere_does_not_pass(place):
    numbers = [*VALUES, *CARRIES, *ROOTS]
    numbers[place] = (numbers[place] + HALF) % ORDER
    values, carries, roots = numbers[:4], numbers[4:8], numbers[8:]
    statement = state(values, carries, 200, LIMITS)
    assert not accepted(statement, forged(statement, values, carries, roots))


def test_half_of_the_rows_show_a_large_number():
    """The forger keeps a row only where the number is not in its half."""
    values, carries = (0, 0), (2**112, 0)
    statement = state(values, carries, 100)
    sent = []

    def count(total):
        sent.append(total)
        return 0

    for seed in range(20):
        assert not accepted(statement, forged(statement, values, carries, (10, 0, 0, 0), seed=seed, projection=count))
    assert 1280 - 200 < len(sent) < 1280 + 200


@pytest.mark.parametrize("factor", [2, -1, HALF, 3**100])
def test_scaled_vectors_do_not_pass(factor):
    """V opens to a multiple of what is proven."""
    larger = [factor * value % ORDER for value in VALUES]
    statement = state(larger, CARRIES, 200, LIMITS)
    assert not accepted(statement, forged(statement, VALUES, CARRIES, ROOTS))
    assert not accepted(statement, forged(statement, larger, CARRIES, ROOTS))
    assert not accepted(statement, forged(statement, larger, CARRIES, [factor * root % ORDER for root in ROOTS]))


def beyond(value, limit):
    """A metric word outside its limits, with three roots modulo the order that make up for it."""
    values, carries = (0, value), (0, 0)
    statement = state(values, carries, 0, (limit,))
    room = (4 * value * (limit - value) + 1) % ORDER
    first = next(x for x in range(100) if pow(room - x * x, (ORDER - 1) // 2, ORDER) == 1)
    roots = (0, 0, 0, 0, first, square_root((room - first * first) % ORDER), 0)
    return statement, forged(statement, values, carries, roots)


BEYOND = pytest.mark.parametrize(
    ("value", "limit"), [(10, 9), (-1, 9), (1, 0), (-1, 0), (2**31, 9), (HALF, 9), (ORDER - 9, 9)]
)


@BEYOND
def test_a_metric_word_beyond_its_limits_does_not_pass(value, limit):
    assert not accepted(*beyond(value, limit))
    values, carries = (0, value), (0, 0)
    statement = state(values, carries, 0, (limit,))
    assert not accepted(statement, forged(statement, values, carries, (0, 0, 0, 0, 1, 0, 0)))


@BEYOND
def test_without_the_projections_any_metric_word_passes(monkeypatch, value, limit):
    monkeypatch.setattr(product, "_projections_hold", lambda *_: True)
    assert accepted(*beyond(value, limit))


def compensated():
    """A norm that is 4 too large, and squares for a metric word that are 4 too small (1 in place of 4·1·1 + 1)."""
    values, carries = (2, 1), (0, 0)
    statement = state(values, carries, 0, (2,))
    return statement, forged(statement, values, carries, (0, 0, 0, 0, 1, 0, 0))


def test_conditions_do_not_make_up_for_each_other():
    assert not accepted(*compensated())


def test_without_weights_conditions_make_up_for_each_other(monkeypatch):
    original = product._Chain.first
    monkeypatch.setattr(product._Chain, "first", lambda self, message: (original(self, message)[0], 1))
    assert accepted(*compensated())


def test_without_its_context_a_proof_can_be_replayed(monkeypatch):
    original = Statement.to_bytes
    monkeypatch.setattr(Statement, "to_bytes", lambda self: original(self).removesuffix(self.context))
    other = replace(STATEMENT, context=b"ROUND 2")
    assert accepted(other, shown(STATEMENT, VALUES, CARRIES))


def restated():
    """A proof whose last response can be written as another number of 32 bytes."""
    masks = [Random(2).randrange(ORDER) for _ in range(STATEMENT.numbers + 132)]
    masks[4] = 77  # of a carry that is zero, so that the response is this mask
    proof = forged(STATEMENT, VALUES, CARRIES, ROOTS, masks=masks)
    start = len(proof) - 32 * (STATEMENT.numbers + 132 - 4)
    assert int.from_bytes(proof[start : start + 32]) == 77
    return proof, proof[:start] + (77 + ORDER).to_bytes(32) + proof[start + 32 :]


def test_a_number_has_one_encoding():
    proof, other = restated()
    assert verify([STATEMENT] * 2, [proof, other]) == [True, False]


def test_without_this_a_proof_has_two_encodings(monkeypatch):
    monkeypatch.setattr(product, "_scalars", lambda data: product._split(data, 32))
    _, other = restated()
    assert accepted(STATEMENT, other)


ERROR = hash_to_point(b"an error")


def with_errors(*factors):
    return forged(STATEMENT, VALUES, CARRIES, ROOTS, errors=[ERROR * factor for factor in factors])


@pytest.mark.parametrize("equation", range(4))
def test_every_equation_is_checked(monkeypatch, equation):
    proof = with_errors(*(int(equation == other) for other in range(4)))
    assert not accepted(STATEMENT, proof)
    weights = [int(equation != other) for other in range(4)]
    monkeypatch.setattr(product, "_batch_weights", lambda statements, proofs: weights * len(proofs))
    assert accepted(STATEMENT, proof)


CANCELLING = ([with_errors(1, -1, 0, 0)], [with_errors(0, 0, 1, -1)], [with_errors(s, 0, 0, 0) for s in (1, -1)])


@pytest.mark.parametrize("proofs", CANCELLING)
def test_errors_do_not_cancel(proofs):
    assert not any(verify([STATEMENT] * len(proofs), proofs))


@pytest.mark.parametrize("proofs", CANCELLING)
def test_without_weights_errors_cancel(monkeypatch, proofs):
    monkeypatch.setattr(product, "_batch_weights", lambda statements, proofs: [1] * (4 * len(proofs)))
    assert all(verify([STATEMENT] * len(proofs), proofs))


# Knowledge and zero knowledge


def test_two_answers_give_the_secrets_away(monkeypatch):
    """Why a prover that can answer two challenges knows the openings, and why no mask is used twice."""
    answers = []
    for e in (10, 13):
        monkeypatch.setattr(product._Chain, "third", lambda self, message, e=e: e)
        proof = forged(STATEMENT, VALUES, CARRIES, ROOTS)
        assert accepted(STATEMENT, proof)
        answers.append(product._parse(STATEMENT, proof).responses.flat())
    third = pow(3, -1, ORDER)
    secrets = [(later - earlier) * third % ORDER for earlier, later in zip(*answers, strict=True)]
    opened = product._Vector.split(STATEMENT, secrets)
    assert list(opened.values) == [value % ORDER for value in VALUES]
    assert list(opened.carries) == [carry % ORDER for carry in CARRIES]
    assert opened.bounded_blinding == BLINDINGS[0] % ORDER


def test_equal_random_bytes_give_other_masks_to_other_statements():
    other = replace(STATEMENT, context=b"round 2")
    proofs = [product._parse(s, shown(s, VALUES, CARRIES)) for s in (STATEMENT, other)]
    assert not set(proofs[0].masks) & set(proofs[1].masks)
    assert shown(STATEMENT, VALUES, CARRIES, 1) != PROOF == shown(STATEMENT, VALUES, CARRIES, 0)


def test_whoever_chooses_the_challenges_needs_no_secret(monkeypatch):
    """The simulator: it takes the answers first and solves for the messages, so an answer says nothing."""
    random = Random(5)
    statement = replace(STATEMENT, bounded=hash_to_point(b"nobody"), carry=hash_to_point(b"knows"))
    numbers = statement.numbers
    halves = np.array([[random.getrandbits(1) for _ in range(numbers)] for _ in range(128)], np.uint8)
    delta, e = random.randrange(ORDER), random.randrange(ORDER)
    gammas = [random.getrandbits(128) for _ in range(128)]
    monkeypatch.setattr(product._Chain, "first", lambda self, message: (halves, delta))
    monkeypatch.setattr(product._Chain, "second", lambda self, message: gammas)
    monkeypatch.setattr(product._Chain, "third", lambda self, message: e)

    flat = [random.randrange(ORDER) for _ in range(numbers + 132)]
    at = product._Vector.split(statement, flat)
    projections = [random.getrandbits(112) for _ in range(128)]
    roots, slope = hash_to_point(b"any"), G
    points = [
        roots,
        commit(at.values, at.bounded_blinding) - statement.bounded * e,
        commit(at.carries, at.carry_blinding) - statement.carry * e,
        product._commit_roots(at) - roots * e,
    ]
    constant = product._commit_product(product._conditions(statement, delta, at, e), at) - slope * e
    masked = (product._project(halves, gammas, at) - e * product._dot(gammas, projections)) % ORDER
    data = b"".join(point.to_bytes() for point in points)
    data += b"".join(projection.to_bytes(14) for projection in projections)
    data += slope.to_bytes() + constant.to_bytes() + masked.to_bytes(32)
    assert accepted(statement, data + b"".join(response.to_bytes(32) for response in flat))


def test_sums_of_halves_are_exact():
    """Limbs and carries compared with integers, where every sum is as large as it can be."""
    random = Random(6)
    halves = np.array([[1, 0, random.getrandbits(1)] for _ in range(128)], np.uint8)
    for gammas in ([2**128 - 1] * 128, [0] * 128, [random.getrandbits(128) for _ in range(128)]):
        expected = [sum(g for g, bit in zip(gammas, column, strict=True) if bit) for column in halves.T.tolist()]
        assert product._weighted_halves(halves, gammas) == expected
