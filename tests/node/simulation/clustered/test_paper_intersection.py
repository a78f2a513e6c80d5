"""Intersection by blind RSA: correct, blind whatever the key, deaf to hostile messages; what it leaks, shown."""

import hashlib
import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256
from gmpy2 import is_prime, mpz, next_prime, powmod
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.node.methods.procfl.messages import digest
from fedgrove.node.methods.procfl.similarity import Intersection
from fedgrove.node.simulation.clustered.paper_intersection import (
    EXPONENT,
    RsaAsker,
    RsaKey,
    RsaSigner,
    _PrivatePower,
    _PublicKey,
    asker_of,
)
from tests.node.methods.procfl.clients import LEFT, RIGHT, SESSION, chi, items_of, seeded, with_items

HEADER, WIDTH = 80, 256
KEY_PART = HEADER + 9 * WIDTH
COUNTS = st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(any)


@pytest.fixture(scope="module")
def key():
    return RsaKey.generate(seeded(1))


@pytest.fixture(scope="module")
def asker():
    return RsaAsker(SESSION, 0, chi(LEFT), seeded(2)(32))


@pytest.fixture
def signer(key):
    return RsaSigner(SESSION, 1, chi(RIGHT), key, seeded(3))


def signed(number: int, key: RsaKey) -> int:
    """x^d with one exponentiation and the exponent of Carmichael's function."""
    return int(powmod(number, pow(EXPONENT, -1, math.lcm(*(int(prime) - 1 for prime in key.primes))), key.modulus))


@pytest.mark.parametrize("bits", [2048, 3072])
def test_keys_have_their_size_and_are_fresh(bits):
    first, second = (RsaKey.generate(seeded(seed), bits) for seed in (5, 6))
    assert first.modulus.bit_length() == second.modulus.bit_length() == bits
    assert not set(first.primes) & set(second.primes) and len(set(first.primes)) == 3
    assert all(is_prime(prime) and math.gcd(EXPONENT, int(prime) - 1) == 1 for prime in first.primes)
    assert max(p.bit_length() for p in first.primes) - min(p.bit_length() for p in first.primes) <= 1
    assert str(first.primes[0]) not in repr(first)


def test_other_sizes_are_refused():
    with pytest.raises(ValueError, match="not 1024"):
        RsaKey.generate(seeded(1), 1024)
    with pytest.raises(ValueError, match="2048"):
        RsaAsker(SESSION, 0, chi(LEFT), bytes(32), 1024)


@settings(max_examples=10)
@given(number=st.integers(1, 2**2047))
def test_the_private_power_is_the_textbook_s(key, number):
    power = _PrivatePower(key, seeded(4))
    for _ in range(2):  # its blinding changes from one to the next
        assert power(mpz(number)) == signed(number, key)


def test_openssl_verifies_a_signature_made_with_it(key):
    digest_info = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256(b"message").digest()
    padded = b"\0\1" + b"\xff" * (WIDTH - 3 - len(digest_info)) + b"\0" + digest_info
    signature = _PrivatePower(key, seeded(4))(mpz(int.from_bytes(padded)))
    public = RSAPublicNumbers(EXPONENT, int(key.modulus)).public_key()
    public.verify(int(signature).to_bytes(WIDTH), b"message", PKCS1v15(), SHA256())


@settings(max_examples=15)
@given(left=COUNTS, right=COUNTS, seed=st.integers(0, 2**32))
def test_the_count_is_that_of_the_sets(key, left, right, seed):
    signer = RsaSigner(SESSION, 3, chi(np.array(right)), key, seeded(seed))
    asker = RsaAsker(SESSION, 8, chi(np.array(left)), seeded(seed)(32))
    question = asker.ask(3, signer.offer)
    found = asker.count(3, signer.offer, question, signer.sign(8, question))
    common = len(set(chi(np.array(left)).tolist()) & set(chi(np.array(right)).tolist()))
    assert found == Intersection(3, 8, sum(right), sum(left), common)


def test_sizes_of_messages(asker, signer):
    question = asker.ask(1, signer.offer)
    assert len(signer.offer) == KEY_PART + HEADER + 16 * 14 == 2464 + 16 * 14
    assert len(question) == len(signer.sign(0, question)) == HEADER + WIDTH * 8


def test_a_restart_gives_the_same_bytes(asker, signer, key):
    again = RsaSigner(SESSION, 1, chi(RIGHT), key, seeded(9))
    assert again.offer == signer.offer
    question = RsaAsker(SESSION, 0, chi(LEFT), seeded(2)(32)).ask(1, signer.offer)
    assert question == asker.ask(1, signer.offer)
    assert again.sign(0, question) == signer.sign(0, question) == signer.sign(0, question)


def test_another_set_or_offer_is_blinded_anew(asker, signer, key):
    """Two elements under one blinding number would give away their quotient."""
    public = _PublicKey(SESSION, 1, key.modulus)
    other_offer = RsaSigner(SESSION, 1, chi(LEFT), key, seeded(3)).offer
    questions = [
        (LEFT, asker.ask(1, signer.offer)),
        (LEFT, asker.ask(1, other_offer)),
        (RIGHT, RsaAsker(SESSION, 0, chi(RIGHT), seeded(2)(32)).ask(1, signer.offer)),
    ]
    factors = []
    for counts, question in questions:
        numbers = [int.from_bytes(item) for item in items_of(question, HEADER, WIDTH)]
        hashes = [int(public.hash(element)) for element in chi(counts).tolist()]
        n = int(key.modulus)
        factors += [number * pow(value, -1, n) % n for number, value in zip(numbers, hashes, strict=True)]
    assert len(set(factors)) == len(factors) == 8 + 8 + 14


def test_the_asker_learns_which_elements_are_common(asker, signer, key):
    """The leak that docs/clustering.md names: so it learns min(X, X') of every label."""
    public = _PublicKey(SESSION, 1, key.modulus)
    tags = set(items_of(signer.offer[KEY_PART:], HEADER, 16))
    which = [public.tag(mpz(signed(int(public.hash(element)), key))) in tags for element in chi(LEFT).tolist()]
    assert which == [True, False, False] + [True] * 5


def test_a_second_question_is_refused(asker, signer):
    signer.sign(0, asker.ask(1, signer.offer))
    other = RsaAsker(SESSION, 0, chi(RIGHT), bytes(32)).ask(1, signer.offer)
    with pytest.raises(InvalidContent, match="asked twice"):
        signer.sign(0, other)


@pytest.mark.parametrize("number", [0, "n", "n + 1", 2**2048 - 1])
def test_numbers_out_of_range_are_not_signed(asker, signer, key, number):
    value = {"n": int(key.modulus), "n + 1": int(key.modulus) + 1}.get(number, number)
    question = with_items(asker.ask(1, signer.offer), HEADER, [value.to_bytes(WIDTH)])
    with pytest.raises(InvalidContent, match="out of range"):
        signer.sign(0, question)


def test_a_wrong_signature_is_found(asker, signer):
    question = asker.ask(1, signer.offer)
    answer = signer.sign(0, question)
    items = items_of(answer, HEADER, WIDTH)
    for wrong in ([*items[1:], items[0]], [*items[:-1], (2).to_bytes(WIDTH)]):
        with pytest.raises(InvalidContent, match="an invalid signature"):
            asker.count(1, signer.offer, question, with_items(answer, HEADER, wrong))
    with pytest.raises(InvalidContent, match="signed 7 numbers, 8 were asked"):
        asker.count(1, signer.offer, question, with_items(answer, HEADER, items[:-1]))


def test_an_answer_to_another_question_is_refused(asker, signer, key):
    other = RsaAsker(SESSION, 0, chi(LEFT), bytes(32))
    answer = signer.sign(0, other.ask(1, signer.offer))
    with pytest.raises(InvalidContent, match="transcript"):
        asker.count(1, signer.offer, asker.ask(1, signer.offer), answer)


class HostileKey:
    """What a signer publishes who chose its modulus badly on purpose."""

    def __init__(self, primes: list[int]) -> None:
        self.modulus = mpz(math.prod(primes))
        public = _PublicKey(SESSION, 1, self.modulus)
        self.roots = [self._root(int(challenge), primes) for challenge in public.challenges()]

    def _root(self, number: int, primes: list[int]) -> int:
        """The e-th root where there is one; else some number."""
        phi = math.lcm(*(prime - 1 for prime in primes))
        return int(powmod(number, pow(EXPONENT, -1, phi), self.modulus)) if math.gcd(EXPONENT, phi) == 1 else number

    def offer(self, honest: bytes) -> bytes:
        items = [int(self.modulus).to_bytes(WIDTH), *(root.to_bytes(WIDTH) for root in self.roots)]
        return with_items(honest[:KEY_PART], HEADER, items) + honest[KEY_PART:]


def test_a_key_under_which_blinding_leaks_is_refused(asker, signer):
    """e divides p − 1: blinded numbers keep the class of H(x) modulo e-th powers, which tells elements apart."""
    weak = int(next_prime(3 << 1022))
    while (weak - 1) % EXPONENT:
        weak += EXPONENT - (weak - 1) % EXPONENT
        while not is_prime(weak):
            weak += EXPONENT
    assert is_prime(weak)
    hostile = HostileKey([weak, int(next_prime(3 << 1022))])
    assert hostile.modulus.bit_length() == 2048
    with pytest.raises(InvalidContent, match="does not prove that its key hides"):
        asker.ask(1, hostile.offer(signer.offer))


def test_a_key_with_small_factors_is_refused(asker, signer):
    """Three divides n: a hash that it divides too would stay marked under every blinding number."""
    hostile = HostileKey([3, 5, int(next_prime((1 << 2047) // 15 + (1 << 2042)))])
    assert hostile.modulus.bit_length() == 2048
    with pytest.raises(InvalidContent, match="small factors"):
        asker.ask(1, hostile.offer(signer.offer))


def test_keys_of_another_size_and_even_ones_are_refused(asker, signer, key):
    for modulus in (int(key.modulus) >> 1 | 1, int(key.modulus) - 1):
        items = [modulus.to_bytes(WIDTH), *items_of(signer.offer[:KEY_PART], HEADER, WIDTH)[1:]]
        offer = with_items(signer.offer[:KEY_PART], HEADER, items) + signer.offer[KEY_PART:]
        with pytest.raises(InvalidContent, match="not an odd number of 2048 bits"):
            asker.ask(1, offer)


@pytest.mark.parametrize("cut", [0, 40, 79, 80, 500, KEY_PART - 1, KEY_PART, KEY_PART + 50, -1])
def test_malformed_offers_are_refused(asker, signer, cut):
    offer = signer.offer
    with pytest.raises(InvalidContent):
        asker.ask(1, offer[:cut])
    flipped = bytearray(offer)
    flipped[min(cut, len(offer) - 300) if cut > 0 else 0] ^= 1
    with pytest.raises(InvalidContent):
        asker.ask(1, bytes(flipped))


@settings(max_examples=30)
@given(noise=st.binary(max_size=100), cut=st.integers(0, 2200))
def test_no_question_is_more_than_refused_or_signed(key, asker, noise, cut):
    signer = RsaSigner(SESSION, 1, chi(np.array([1])), key, seeded(3))
    question = asker.ask(1, signer.offer)
    hostile = question[:cut] + noise + question[cut + len(noise) :]
    try:
        answer = signer.sign(0, hostile)
    except InvalidContent:
        return
    assert len(answer) == len(hostile) and answer[36:68] == digest(signer.offer, hostile)


def test_everybody_asks_about_half_of_its_partners():
    asked = [sum(asker_of(min(n, m), max(n, m)) == n for m in range(101) if m != n) for n in range(101)]
    assert set(asked) <= {49, 50, 51}
