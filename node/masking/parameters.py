"""How many partners and share-holders a client needs (after Bell et al., CCS 2020, section 3).

Of n clients, ⌊γn⌋ collude with the coordinator, and each of the others may drop out with probability δ. Partners and
holders are uniformly random sets, since the order of the leaves is. Everything is computed in integers, as all clients
must come to the same numbers.

partners   d such that  honest · P(all d partners collude or drop out) ≤ 2⁻⁸⁰
holders    k and threshold t such that
           n · P(t holders collude) ≤ 2⁻⁸⁰  and  2t > k  and  n · P(fewer than t holders are left) ≤ 2⁻³⁰

Whoever makes the block that orders the leaves can try orders; 2⁻⁸⁰ leaves 2⁻⁴⁰ to somebody who tries 2⁴⁰. Where n is
too small for these bounds, everybody is everybody's partner and holder. Up to 32 clients t also exceeds (k + ⌊γn⌋)/2:
then colluders gain nothing by telling the holders different lists of survivors.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import comb

PPM = 1_000_000
PRIVACY_BITS = 80
FAILURE_BITS = 30
SMALL = 32
FEWEST_PARTNERS = 16


@dataclass(frozen=True)
class Assumed:
    """What the terms assume of a round's clients.

    Attributes
    ----------
    colluders, dropouts : int
        Shares γ and δ of them, per million.
    """

    colluders: int = 330_000
    dropouts: int = 200_000

    @classmethod
    def of(cls, colluders: float, dropouts: float) -> "Assumed":
        """From fractions of 1."""
        return cls(round(colluders * PPM), round(dropouts * PPM))

    def colluders_of(self, n: int) -> int:
        """⌊γn⌋, of n clients."""
        return self.colluders * n // PPM


DEFAULT_ASSUMED = Assumed()


@dataclass(frozen=True)
class Sharing:
    """How many others hold shares of a client's secrets, and how many shares recover one."""

    holders: int
    threshold: int


@lru_cache(maxsize=1024)
def partners_needed(n: int, bad: int, bits: int = PRIVACY_BITS) -> int:
    """The fewest partners d ≤ n − 1 of n clients, ``bad`` of whom protect nobody, for (n − bad)·P ≤ 2^−bits.

    P = C(bad, d) / C(n − 1, d) is the chance that all d partners of an honest client are bad.
    """
    above, below = (n - bad) << bits, 1
    for degree in range(n - 1):
        if above <= below:
            return degree
        above *= max(bad - degree, 0)
        below *= n - 1 - degree
    return n - 1


@lru_cache(maxsize=1024)
def sharing(n: int, assumed: Assumed) -> Sharing:
    """Holders and threshold for a round of n clients, at least two."""
    others, colluders = n - 1, min(assumed.colluders_of(n), n - 2)
    if n <= SMALL:
        return Sharing(others, min(others, (others + colluders) // 2 + 1))
    for holders in range(SMALL, others):
        if holders * n % 2:
            continue  # no graph has an odd number of vertices of odd degree
        threshold = max(holders // 2 + 1, _private_threshold(n, colluders, holders))
        if threshold <= holders and _lasts(n, assumed.dropouts, holders, threshold):
            return Sharing(holders, threshold)
    return Sharing(others, max(others // 2 + 1, colluders + 1))


def partners_of_all(n: int, assumed: Assumed) -> int:
    """Partners that each of n clients needs; at least 16, as a few more cost next to nothing."""
    bad = assumed.colluders_of(n) + assumed.dropouts * n // PPM
    return min(n - 1, max(FEWEST_PARTNERS, partners_needed(n, min(bad, n - 1))))


def crowd(n: int, assumed: Assumed) -> int:
    """The fewest of n clients that may be summed, all masking with each other, so that they hide each other.

    Who drops out protects nobody, so it is survivors that count.
    """
    return max(3, partners_needed(n, assumed.colluders_of(n)) + 1)


def with_dropouts(survivors: int, assumed: Assumed) -> int:
    """How many clients there must be for this many to survive, on average."""
    return -(-survivors * PPM // (PPM - assumed.dropouts))


def _private_threshold(n: int, colluders: int, holders: int) -> int:
    """The least t with n · P(at least t of the holders collude) ≤ 2^−PRIVACY_BITS."""
    bound = comb(n - 1, holders)
    tail, threshold = 0, holders + 1
    for count in range(min(colluders, holders), -1, -1):
        tail += comb(colluders, count) * comb(n - 1 - colluders, holders - count)
        if (n * tail) << PRIVACY_BITS > bound:
            return count + 1
        threshold = count
    return threshold


def _lasts(n: int, dropouts: int, holders: int, threshold: int) -> bool:
    """Whether n · P(fewer than t of the holders are left) ≤ 2^−FAILURE_BITS."""
    stay = PPM - dropouts
    tail = sum(comb(holders, left) * stay**left * dropouts ** (holders - left) for left in range(threshold))
    return (n * tail) << FAILURE_BITS <= PPM**holders
