"""Secret sharing by enumeration over a small field; correction of wrong shares; the field itself."""

from collections import Counter
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.node.masking.shamir import PRIME, combine, recover_secret, split

SMALL = 13


def coefficients(values):
    """A source of bytes that makes ``split`` draw these coefficients (4-bit elements)."""
    source = iter(values)
    return lambda size: bytes([next(source) << 4])


def test_the_field_is_prime_and_holds_every_32_bytes():
    assert PRIME > 2**256
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 60):
        powers = [pow(base, odd << k, PRIME) for k in range(twos)]
        assert powers[0] in (1, PRIME - 1) or PRIME - 1 in powers


@pytest.mark.parametrize(("threshold", "count"), [(1, 3), (2, 4), (3, 5)])
def test_every_polynomial_of_a_small_field_gives_its_secret_to_every_subset(threshold, count):
    for secret, *rest in product(range(SMALL), repeat=threshold):
        shares = split(secret, threshold, count, coefficients(rest), SMALL)
        for holders in combinations(range(count), threshold):
            assert combine({h: shares[h] for h in holders}, SMALL) == secret


@pytest.mark.parametrize(("threshold", "count"), [(2, 4), (3, 5)])
def test_one_share_fewer_than_the_threshold_says_nothing(threshold, count):
    """For every secret, any t − 1 shares take each combination of values exactly once over all polynomials."""
    for holders in combinations(range(count), threshold - 1):
        for secret in range(SMALL):
            seen = Counter(
                tuple(split(secret, threshold, count, coefficients(rest), SMALL)[h] for h in holders)
                for rest in product(range(SMALL), repeat=threshold - 1)
            )
            assert len(seen) == SMALL ** (threshold - 1) and set(seen.values()) == {1}


def test_coefficients_are_drawn_without_bias():
    """Of the 16 values of 4 random bits those outside the field of 13 are drawn again, not reduced."""
    shares = split(0, 2, 2, coefficients([13, 15, 14, 5]), SMALL)
    assert shares == (5, 10)


@settings(max_examples=40)
@given(st.integers(0, 2**256 - 1), st.integers(1, 32), st.data())
def test_any_threshold_of_shares_recovers_a_secret(secret, count, data):
    threshold = data.draw(st.integers(1, count))
    shares = dict(enumerate(split(secret, threshold, count, Random(1).randbytes)))
    kept = data.draw(st.permutations(range(count)))[:threshold]
    assert combine({h: shares[h] for h in kept}) == secret


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**256 - 1), st.integers(3, 31), st.data())
def test_half_of_the_spare_shares_may_be_wrong(secret, count, data):
    threshold = data.draw(st.integers(1, count))
    random = Random(data.draw(st.integers(0, 99)))
    shares = dict(enumerate(split(secret, threshold, count, random.randbytes)))
    for holder in random.sample(range(count), (count - threshold) // 2):
        shares[holder] = random.randrange(PRIME)
    assert recover_secret(shares, threshold, lambda value: value == secret) == secret


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**256 - 1), st.integers(3, 11), st.data())
def test_few_shares_may_all_be_wrong_but_the_threshold(secret, count, data):
    threshold = data.draw(st.integers(1, count))
    random = Random(data.draw(st.integers(0, 99)))
    shares = dict(enumerate(split(secret, threshold, count, random.randbytes)))
    for holder in random.sample(range(count), count - threshold):
        shares[holder] = random.randrange(PRIME)
    assert recover_secret(shares, threshold, lambda value: value == secret) == secret


def test_too_few_or_too_many_wrong_shares_give_none_in_bounded_time():
    random = Random(4)
    shares = dict(enumerate(split(77, 21, 31, random.randbytes)))
    assert recover_secret(dict(list(shares.items())[:20]), 21, lambda value: value == 77) is None
    wrong = shares | {holder: random.randrange(PRIME) for holder in range(11)}
    assert recover_secret(wrong, 21, lambda value: value == 77) is None


def test_shares_that_are_all_zero_give_none_where_the_secret_is_another():
    """The decoder then divides zero, which has fewer coefficients than any divisor."""
    assert recover_secret(dict.fromkeys(range(3), 0), 2, lambda value: value == 77) is None


@pytest.mark.parametrize(("secret", "threshold", "count"), [(-1, 1, 2), (PRIME, 1, 2), (1, 0, 2), (1, 3, 2), (1, 1, 0)])
def test_what_cannot_be_shared_is_refused(secret, threshold, count):
    with pytest.raises(ValueError):
        split(secret, threshold, count, Random(1).randbytes)
