"""A battery of tests for randomness, of bits, nibbles, bytes and words, in the manner of NIST SP 800-22.

Each takes a little-endian uint32 array of at least 2¹⁵ words and returns the probability with which a uniform one looks
at least as odd (a p-value). Normal and χ² approximations hold at these lengths.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import stats
from scipy.special import stirling2

Test = Callable[[np.ndarray], float]


def monobit(words: np.ndarray) -> float:
    """As many ones as zeros (SP 800-22, 2.1)."""
    ones = int(np.bitwise_count(words).sum(dtype=np.int64))
    return _two_sided(ones, 32 * len(words) / 2, 32 * len(words) / 4)


def places(words: np.ndarray) -> float:
    """As many ones as zeros at each of the 32 places of a word."""
    ones = _bits(words).reshape(-1, 32).sum(axis=0, dtype=np.int64)
    return float(stats.chi2.sf(((ones - len(words) / 2) ** 2 / (len(words) / 4)).sum(), 32))


def blocks(words: np.ndarray) -> float:
    """The number of ones in blocks of 128 bits is binomial in its variance (SP 800-22, 2.2)."""
    ones = np.bitwise_count(words[: len(words) // 4 * 4]).reshape(-1, 4).sum(axis=1, dtype=np.int64)
    odd = float(((ones - 64.0) ** 2 / 32).sum())
    # The excess kurtosis of a binomial makes the sum's variance 2 − 2/128 an element, not 2.
    return _two_sided(odd, len(ones), (2 - 2 / 128) * len(ones))


def runs(words: np.ndarray) -> float:
    """Neighbouring bits differ half of the time (SP 800-22, 2.3)."""
    bits = _bits(words)
    return _two_sided(int((bits[1:] != bits[:-1]).sum()), (len(bits) - 1) / 2, (len(bits) - 1) / 4)


def lags(words: np.ndarray) -> float:
    """Bits at the distances of powers of two, up to 1,024, differ half of the time."""
    bits = _bits(words)
    odd = 0.0
    for exponent in range(1, 11):
        pairs = len(bits) - (1 << exponent)
        differ = int((bits[1 << exponent :] != bits[: -(1 << exponent)]).sum())
        odd += (differ - pairs / 2) ** 2 / (pairs / 4)
    return float(stats.chi2.sf(odd, 10))


def longest_runs(words: np.ndarray) -> float:
    """The longest run of ones in 128 bits is as long as it should be (SP 800-22, 2.4; its table)."""
    bits = _bits(words[: len(words) // 4 * 4]).reshape(-1, 128)
    longest, current = np.zeros(len(bits), np.int16), np.zeros(len(bits), np.int16)
    for column in bits.T:
        current = (current + 1) * column
        np.maximum(longest, current, out=longest)
    chances = _longest_run_chances(128, 4, 9)
    return _chi_squared(np.bincount(np.clip(longest, 4, 9) - 4, minlength=6), chances)


def walk(words: np.ndarray) -> float:
    """The sum of ±1 by bits does not go further than a random walk (SP 800-22, 2.13)."""
    steps = np.cumsum(2 * _bits(words).astype(np.int32) - 1)
    furthest = float(np.abs(steps).max()) / math.sqrt(len(steps))
    odd = sum(
        (-1) ** k * (stats.norm.cdf((2 * k + 1) * furthest) - stats.norm.cdf((2 * k - 1) * furthest))
        for k in range(-9, 10)
    )
    return min(1.0, max(0.0, 1 - odd))


def byte_values(words: np.ndarray) -> float:
    """All 256 bytes are alike."""
    return _chi_squared(np.bincount(_bytes(words), minlength=256), np.full(256, 1 / 256))


def byte_pairs(words: np.ndarray) -> float:
    """All 65,536 pairs of a byte and the next are alike; pairs do not overlap."""
    return _chi_squared(np.bincount(words.view("<u2"), minlength=1 << 16), np.full(1 << 16, 2.0**-16))


def poker(words: np.ndarray) -> float:
    """Five nibbles have as many different values as they should (Knuth, The Art of Computer Programming, 3.3.2 D)."""
    data = _bytes(words)
    nibbles = np.stack([data & 15, data >> 4], axis=1).ravel()
    hands = np.sort(nibbles[: len(nibbles) // 5 * 5].reshape(-1, 5), axis=1)
    different = 1 + (hands[:, 1:] != hands[:, :-1]).sum(axis=1)
    chances = [math.perm(16, count) * stirling2(5, count, exact=True) / 16**5 for count in range(1, 6)]
    return _chi_squared(np.bincount(different - 1, minlength=5), np.array(chances))


def serial_correlation(words: np.ndarray) -> float:
    """Words are not correlated with those 1 to 64 places on (Knuth 3.3.2 K)."""
    values = words / 2.0**32 - 0.5
    odd = sum(float(values[lag:] @ values[:-lag]) ** 2 / ((len(values) - lag) / 144) for lag in range(1, 65))
    return float(stats.chi2.sf(odd, 64))


def spectrum(words: np.ndarray) -> float:
    """No frequency stands out among the bits: 95 % of the peaks stay below the line (SP 800-22, 2.6)."""
    bits = _bits(words[: 1 << 17])
    peaks = np.abs(np.fft.rfft(2.0 * bits - 1))[1 : len(bits) // 2]
    below = int((peaks < math.sqrt(math.log(1 / 0.05) * len(bits))).sum())
    return _two_sided(below, 0.95 * len(peaks), 0.95 * 0.05 * len(peaks))


BATTERY: dict[str, Test] = {
    test.__name__: test
    for test in (
        monobit,
        places,
        blocks,
        runs,
        lags,
        longest_runs,
        walk,
        byte_values,
        byte_pairs,
        poker,
        serial_correlation,
        spectrum,
    )
}


def failed(words: np.ndarray, level: float) -> list[str]:
    """Names of the tests that a sequence fails."""
    return [name for name, test in BATTERY.items() if not test(words) >= level]


def _bits(words: np.ndarray) -> np.ndarray:
    return np.unpackbits(_bytes(words), bitorder="little")


def _bytes(words: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(words, "<u4").view(np.uint8)


def _two_sided(value: float, mean: float, variance: float) -> float:
    return math.erfc(abs(value - mean) / math.sqrt(2 * variance))


def _chi_squared(counts: np.ndarray, chances: np.ndarray) -> float:
    """Two-sided: what is too even is odd as well."""
    expected = counts.sum() * chances
    odd = float(((counts - expected) ** 2 / expected).sum())
    upper = stats.chi2.sf(odd, len(counts) - 1)
    return float(2 * min(upper, 1 - upper))


def _longest_run_chances(length: int, least: int, most: int) -> np.ndarray:
    """P(longest run ≤ least), P(= least + 1), …, P(≥ most) of fair bits: strings without longer runs are counted."""

    def without_longer(limit: int) -> float:
        counts = [1 << place for place in range(limit + 1)]
        for _ in range(limit + 1, length + 1):
            counts.append(sum(counts[-limit - 1 :]))
        return counts[length] / (1 << length)

    reached = [without_longer(limit) for limit in range(least, most)]
    return np.diff([0.0, *reached, 1.0])
