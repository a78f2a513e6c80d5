"""The sketch against a dense matrix of plain integers; its distribution; the limits that follow from it.

Statistical tests have fixed seeds. The key of most sketches here is one SHA-256 of the seed, to save time.
"""

import hashlib
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.bounds import sketch as module
from fedgrove.node.masking.bounds.sketch import (
    STRETCHING,
    Sketch,
    is_unambiguous,
    largest_norm,
    norm_limit,
    sketch_seed,
    stretched,
    words_needed,
)
from fedgrove.node.masking.prg import Mask, apply_masks
from fedgrove.node.masking.ring import encode, fraction_bits
from tests.node.masking.rounds import CONTEXT

ALPHA = 1e-3
SIDE = 6 * (1 << 14)
SIZES = [16, 32, 64, 128, 256]


@pytest.fixture(autouse=True, scope="module")
def _cheap_keys():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "stretched", lambda seed: hashlib.sha256(seed).digest())
        yield


def seed(number: int) -> bytes:
    return number.to_bytes(32)


def uniform(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return generator.integers(0, 1 << 32, shape, np.uint32)


def signed(words: np.ndarray) -> np.ndarray:
    return words.view(np.int32).astype(np.int64)


def one_hot(length: int, place: int, value: int = 1) -> np.ndarray:
    words = np.zeros(length, "<u4")
    words[place] = value
    return words


# The dense matrix, from the text of the module alone.


def choice(key: bytes, row: int, place: int, buckets: int) -> tuple[int, int]:
    """Bucket and sign of a word in a row: AES of the counter block that holds its 16 bits."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    block = encryptor.update(((row << 64) + place // 8).to_bytes(16))
    drawn = int.from_bytes(block[2 * (place % 8) : 2 * (place % 8) + 2], "little")
    return drawn % buckets, -1 if drawn // buckets % 2 else 1


@lru_cache
def column(key: bytes, place: int, words: int) -> tuple[int, ...]:
    """Column ``place`` of S."""
    found = [0] * words
    for row in range(6):
        bucket, sign = choice(key, row, place, 1 << 14)
        for second in range(16):
            last, other = choice(key, 6 + second, (row << 14) + bucket, words // 16)
            found[second * (words // 16) + last] += sign * other
    return tuple(found)


def dense(number: int, vector: list[int], words: int, metrics: int) -> list[int]:
    key = hashlib.sha256(seed(number)).digest()
    length = len(vector) - metrics
    columns = [column(key, place, words) for place in range(length)]
    sums = [sum(vector[place] * columns[place][row] for place in range(length)) for row in range(words)]
    return [value % 2**32 for value in [*sums, *vector[length:]]]


@st.composite
def vectors(draw, count: int = 1):
    metrics = draw(st.integers(0, 3))
    size = draw(st.integers(metrics, 24))
    word = st.integers(0, 2**32 - 1)
    chosen = [draw(st.lists(word, min_size=size, max_size=size)) for _ in range(count)]
    return Sketch(seed(draw(st.integers(0, 3))), size - metrics, draw(st.sampled_from(SIZES)), metrics), chosen


@settings(max_examples=40, deadline=None)
@given(vectors())
def test_it_is_the_dense_matrix_of_plain_integers(case):
    sketch, (vector,) = case
    found = sketch.of(np.array(vector, "<u4"))
    assert found.dtype == np.dtype("<u4") and found.shape == (sketch.words + sketch.metrics,) == (sketch.width,)
    assert found.tolist() == dense(int.from_bytes(sketch.seed), vector, sketch.words, sketch.metrics)


@settings(max_examples=40, deadline=None)
@given(vectors(2), st.integers(0, 2**32 - 1))
def test_it_is_linear_modulo_two_to_the_32(case, factor):
    sketch, chosen = case
    first, second = (np.array(each, "<u4") for each in chosen)
    scale = np.uint32(factor)
    assert np.array_equal(sketch.of(first + scale * second), sketch.of(first) + scale * sketch.of(second))


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000, 1 << 17])
def test_bytes_do_not_depend_on_how_the_vector_is_cut(monkeypatch, chunk):
    words = uniform(np.random.default_rng(0), 1003)
    whole = Sketch(seed(1), 1000, 64, 3).of(words)
    monkeypatch.setattr(module, "_CHUNK", chunk)
    sketch = Sketch(seed(1), 1000, 64, 3)
    assert np.array_equal(sketch.of(words), whole)


@pytest.mark.parametrize("length", [0, 1, 5, 1000, (1 << 17) + 9])
@pytest.mark.parametrize("metrics", [0, 3])
def test_a_mask_is_sketched_as_it_is_laid_over_an_update(monkeypatch, length, metrics):
    monkeypatch.setattr(module, "_BATCH", 2)
    sketch = Sketch(seed(2), length, 64, metrics)
    keys = [bytes([number]) * 32 for number in range(5)]
    expected = []
    for key in keys:
        words = np.zeros(length + metrics, "<u4")
        apply_masks(words, [Mask(key, False, ((0, length + metrics),))])
        expected.append(sketch.of(words))
    assert np.array_equal(sketch.of_streams(keys), expected)


def test_no_masks_have_no_sketches():
    assert Sketch(seed(2), 10, 64, 1).of_streams([]).shape == (0, 65)


def test_the_sketch_of_a_masked_update_is_that_of_the_update_and_of_its_masks():
    sketch = Sketch(seed(3), 500, 256, 2)
    update = uniform(np.random.default_rng(1), 502)
    added, subtracted = bytes(32), b"\1" * 32
    masked = update.copy()
    apply_masks(masked, [Mask(added, False, ((0, 502),)), Mask(subtracted, True, ((0, 502),))])
    first, second = sketch.of_streams([added, subtracted])
    assert np.array_equal(sketch.of(masked), sketch.of(update) + first - second)


def test_the_bytes_of_a_sketch_stay_what_they_are(monkeypatch):
    """What members of one round must agree on, with the key stretched as in use."""
    monkeypatch.setattr(module, "stretched", stretched)
    sketch = Sketch(sketch_seed(CONTEXT, b"\1" * 32, [b"\2" * 32, b"\3" * 32]), 3000, 256, 3)
    words = np.arange(3003, dtype="<u4") * np.uint32(2654435761)
    digest = hashlib.sha256(sketch.of(words).tobytes() + sketch.of_streams([bytes(32)]).tobytes()).hexdigest()
    assert digest == "8097a1deb342bacc1f08333926bc844daee9889b8d535c13790ea0bbd0144748"


def test_a_seed_is_stretched_by_a_chain_of_hashes():
    expected = b"s" * 32
    for _ in range(STRETCHING):
        expected = hashlib.sha256(expected).digest()
    assert STRETCHING == 2**20 and stretched(b"s" * 32) == expected


def test_every_part_of_a_round_changes_the_seed():
    digests = [b"\2" * 32, b"\3" * 32]
    seeds = {
        sketch_seed(CONTEXT, bytes(32), digests),
        sketch_seed(replace(CONTEXT, chain_id=1), bytes(32), digests),
        sketch_seed(replace(CONTEXT, ledger="0x" + "60" * 20), bytes(32), digests),
        sketch_seed(replace(CONTEXT, round=8), bytes(32), digests),
        sketch_seed(CONTEXT, b"\1" * 32, digests),
        sketch_seed(CONTEXT, bytes(32), digests[::-1]),
        sketch_seed(CONTEXT, bytes(32), digests[:1]),
    }
    assert len(seeds) == 7
    for block, listed in ((bytes(31), digests), (bytes(32), [*digests, bytes(33)])):
        with pytest.raises(ValueError, match="expected 32"):
            sketch_seed(CONTEXT, block, listed)


@pytest.mark.parametrize("words", [0, -16, 8, 24, 48, 96, 8192])
def test_a_sketch_has_sixteen_times_a_power_of_two_words(words):
    with pytest.raises(ValueError, match="power of two"):
        Sketch(seed(0), 10, words, 0)


@pytest.mark.parametrize(("key", "length", "metrics"), [(bytes(31), 1, 0), (bytes(32), -1, 0), (bytes(32), 1, -1)])
def test_absurd_sizes_are_refused(key, length, metrics):
    with pytest.raises(ValueError, match="a seed of 32 bytes"):
        Sketch(key, length, 64, metrics)


@pytest.mark.parametrize(
    "words", [np.zeros(11, "<u4"), np.zeros(13, "<u4"), np.zeros(12, "<i8"), np.zeros((12, 1), "<u4")]
)
def test_a_vector_of_another_size_or_type_is_refused(words):
    with pytest.raises(ValueError, match="12 words"):
        Sketch(seed(0), 10, 64, 2).of(words)


# Distribution


def test_buckets_and_signs_are_uniform_in_each_row_and_rows_are_independent():
    """160,000 words, χ² at 0.1 %: a bias of 10 % for half of 32 cells has a noncentrality of 1,600."""
    _, _, choices = next(Sketch(seed(4), 1 << 17, 64, 0)._pieces())
    assert choices.shape == (6, 1 << 17) and 0 <= choices.min() <= choices.max() < 1 << 15
    assert stats.ncx2.sf(stats.chi2.isf(ALPHA, 31), 31, (1 << 17) * 0.01) > 0.999
    for row in choices:
        for cells in (row >> 10, row & 31):
            assert stats.chisquare(np.bincount(cells, minlength=32)).pvalue > ALPHA
    for first in range(6):
        for second in range(first):
            counts = np.histogram2d(choices[first] >> 11, choices[second] >> 11, bins=16)[0]
            assert stats.chi2_contingency(counts).pvalue > ALPHA / 15


def test_choices_of_the_second_stage_are_uniform():
    second = Sketch(seed(5), 1, 256, 0)._second
    assert second.shape == (16, SIDE) and 0 <= second.min() <= second.max() < 32
    pvalues = [stats.chisquare(np.bincount(row, minlength=32)).pvalue for row in second]
    assert min(pvalues) > ALPHA / 16


def ratios(trials: int, vector: np.ndarray, words: int = 256) -> np.ndarray:
    """|S·q|/(√96·|q|) over independent sketches."""
    q = vector.astype(np.int32).view("<u4")
    norm = np.linalg.norm(vector) * 96**0.5
    drawn = (signed(Sketch(seed(10_000 + trial), len(q), words, 0).of(q)) for trial in range(trials))
    return np.array([np.linalg.norm(each.astype(float)) for each in drawn]) / norm


def dense_update(length: int) -> np.ndarray:
    return np.rint(np.random.default_rng(6).normal(0, 5000, length))


@pytest.mark.parametrize(
    "vector",
    [dense_update(2000), np.eye(1, 2000, 7)[0] * 100_000, np.repeat([3000.0, 0.0], [1, 1999]) + (np.arange(2000) == 9)],
    ids=["dense", "one word", "two words"],
)
def test_the_length_of_a_sketch_is_that_of_the_vector_times_the_root_of_96(vector):
    """The mean of 60 squares, each with a relative deviation below 0.1, is off by 6 % with a chance below 10⁻⁵."""
    found = ratios(60, vector)
    assert abs(np.mean(found**2) - 1) < 0.06
    assert 0.05 < np.std(found**2) < 0.13


@pytest.mark.parametrize("trials", [100, pytest.param(20_000, marks=pytest.mark.statistics)])
def test_honest_updates_at_the_limit_are_refused_less_than_once_in_ten_thousand(trials):
    """At most 2 of 20,000: if one in a thousand were refused, this would be seen with a chance of 1 − 3·10⁻⁶."""
    found = ratios(trials, dense_update(2000))
    assert np.count_nonzero(found > 1.2) <= trials / 10_000
    assert stats.binom.cdf(2, 20_000, 1e-3) < 1e-5
    if trials == 20_000:  # a factor of 1.15 would not do
        assert np.count_nonzero(found > 1.15) > 2


def test_an_update_of_one_word_at_the_limit_is_refused_as_rarely():
    """Exact: its six places fall into 16 buckets a row, with signs, and 16 rows' sums of squares add up."""
    row: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(6):  # sums in the buckets hit, sorted
        after: dict[tuple[int, ...], float] = {}
        for sums, chance in row.items():
            for place, step in product(range(len(sums) + 1), (-1, 1)):
                hit = [*sums] if place < len(sums) else [*sums, 0]
                hit[place] += step
                key, fresh = tuple(sorted(hit)), 16 - len(sums)
                after[key] = after.get(key, 0) + chance * (1 if place < len(sums) else fresh) / 32
        row = after
    squares = np.zeros(37)
    for sums, chance in row.items():
        squares[sum(each**2 for each in sums)] += chance
    total = np.ones(1)
    for _ in range(16):
        total = np.convolve(total, squares)
    assert total @ np.arange(len(total)) == pytest.approx(96)
    assert total[np.arange(len(total)) > 1.44 * 96].sum() == pytest.approx(8.46e-7, rel=0.01)


def test_with_fewer_words_honest_updates_would_be_refused_often():
    """At 32 words one in 20 is, so that fewer than 2 of 120 has a chance of 1 in 70."""
    found = ratios(120, dense_update(500), 32)
    assert np.count_nonzero(found > 1.2) >= 2 and words_needed(0) == 256


# What an adversary can do with it


def basis_modulo_2(sketch: Sketch) -> list[int]:
    """The columns of S modulo 2, each as the bits of an integer."""
    columns = (sketch.of(one_hot(sketch.length, place)) for place in range(sketch.length))
    return [int.from_bytes(np.packbits(each.astype(np.uint8) & 1).tobytes()) for each in columns]


def dependency(columns: list[int]) -> tuple[int, list[int]]:
    """Rank over GF(2), and places of columns that add up to zero (empty: independent)."""
    pivots: dict[int, tuple[int, int]] = {}
    found: list[int] = []
    for place, vector in enumerate(columns):
        used = 1 << place
        while vector and vector.bit_length() in pivots:
            other, theirs = pivots[vector.bit_length()]
            vector, used = vector ^ other, used ^ theirs
        if vector:
            pivots[vector.bit_length()] = (vector, used)
        elif not found:
            found = [index for index in range(len(columns)) if used >> index & 1]
    return len(pivots), found


@pytest.mark.parametrize("words", [32, 64, 256])
def test_its_rank_modulo_2_is_sixteen_less_than_its_words(words):
    rank, found = dependency(basis_modulo_2(Sketch(seed(7), words + 60, words, 0)))
    assert rank == words - 16 and found


def test_more_colluders_than_the_rank_can_choose_a_monster_that_is_not_seen():
    """Each puts 2³¹ on a word of its own; those of a dependency stay in the sum. As many as the rank − 80 cannot."""
    sketch = Sketch(seed(8), 60, 64, 0)
    _, chosen = dependency(basis_modulo_2(sketch))
    monster = np.zeros(60, "<u4")
    monster[chosen] = 1 << 31
    assert monster.any() and not sketch.of(monster).any()
    assert words_needed(60) == 256
    _, chosen = dependency(basis_modulo_2(Sketch(seed(8), 60, words_needed(60), 0)))
    assert not chosen


def cancelling_pairs(sketch: Sketch) -> list[tuple[int, int, int]]:
    """Pairs of words that fall into the same buckets in all rows of stage 1, with the sign that cancels them."""
    _, _, choices = next(sketch._pieces())
    seen: dict[bytes, int] = {}
    found = []
    for place in range(sketch.length):
        for flip, sign in ((0, -1), (1 << 14, 1)):
            other = seen.get((choices[:, place] ^ flip).tobytes())
            if other is not None:
                found.append((place, other, sign))
        seen[choices[:, place].tobytes()] = place
    return found


def test_two_words_do_not_cancel_in_six_rows_as_they_do_in_one(monkeypatch):
    assert not cancelling_pairs(Sketch(seed(9), 3000, 256, 0))
    monkeypatch.setattr(module, "_ROWS_1", 1)
    sketch = Sketch(seed(9), 3000, 256, 0)
    pairs = cancelling_pairs(sketch)
    assert pairs
    first, second, sign = pairs[0]
    monster = one_hot(3000, first, 1 << 30)
    monster[second] = (sign << 30) % 2**32
    assert not sketch.of(monster).any()


@pytest.mark.parametrize("kind", ["scaled", "one word", "wrapping"])
def test_monsters_that_are_fixed_before_the_sketch_are_seen(kind):
    generator = np.random.default_rng(11)
    limit = norm_limit(1.0, 1, 10, 27, 2000)
    scale = isqrt_of(limit) / 96**0.5
    for trial in range(40):
        vector = {
            "scaled": lambda: dense_update(2000) * (4 * scale / np.linalg.norm(dense_update(2000))),
            "one word": lambda: np.eye(1, 2000, int(generator.integers(2000)))[0] * 2**31,
            "wrapping": lambda: generator.integers(-(2**31), 2**31, 2000).astype(float),
        }[kind]()
        seen = signed(Sketch(seed(500 + trial), 2000, 256, 0).of(np.rint(vector).astype(np.int64).astype("<u4")))
        assert sum(int(word) ** 2 for word in seen) > limit


# Limits


def isqrt_of(square: int) -> float:
    return float(square) ** 0.5


@pytest.mark.parametrize(
    ("colluders", "words"), [(0, 256), (160, 256), (161, 512), (416, 512), (417, 1024), (4000, 4096)]
)
def test_words_exceed_colluders_by_eighty_bits_and_the_lost_rank(colluders, words):
    assert words_needed(colluders) == words


def test_too_many_colluders_have_no_sketch():
    with pytest.raises(ValueError, match="more than 4096"):
        words_needed(4001)


@given(
    st.floats(1e-3, 100),
    st.integers(1, 10**6),
    st.integers(0, 10**7),
    st.integers(8, 30),
    st.integers(1, 10**7),
)
def test_the_limit_is_the_formula_rounded_up(limit, samples, others, bits, length):
    total = samples + others
    exact = 1.2 * 96**0.5 * (limit * samples / total * 2.0**bits + length**0.5 / 2)
    found = isqrt_of(norm_limit(limit, samples, total, bits, length))
    assert exact * (1 - 1e-9) <= found <= exact + 30


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 500), st.integers(0, 10**5), st.sampled_from([1.0, 8.0]))
def test_an_update_at_the_limit_has_no_longer_words_than_the_limit_takes(number, samples, others, bound):
    vector = np.random.default_rng(number).normal(size=300)
    vector = (vector / np.linalg.norm(vector)).astype(np.float32)
    limit = float(np.linalg.norm(vector.astype(float)))
    words = encode(vector, Layout(("w",), ((300,),)), samples, samples + others, bound)
    square = sum(int(word) ** 2 for word in signed(words))
    allowed = norm_limit(limit, samples, samples + others, fraction_bits(bound), 300)
    assert 96 * Fraction(36, 25) * square <= allowed


def test_sketches_add_up_without_wrapping_only_below_two_to_the_31():
    tau = 1 << 29
    squares = [(tau - 1) ** 2] * 3 + [1]
    assert is_unambiguous(squares, 3) and is_unambiguous(squares, 0)
    assert not is_unambiguous([(tau - 1) ** 2] * 4, 4)
    assert is_unambiguous([(tau - 1) ** 2] * 4, 3)  # others are honest
    assert is_unambiguous([], 5)


def test_beyond_that_colluders_within_their_limits_add_up_to_a_sum_that_reads_as_another():
    """Four sketches of 2³⁰ are the sketch of nothing modulo 2³²: the counter-case."""
    assert 4 * (1 << 30) % 2**32 == 0 and not is_unambiguous([1 << 60] * 4, 4)


@pytest.mark.parametrize("share", [0.33, 1.0])
def test_the_largest_norm_is_where_sketches_begin_to_be_ambiguous(share):
    bits, members = fraction_bits(8.0), 100
    colluders = round(share * members)
    for factor, fine in ((0.99, True), (1.01, False)):
        squares = [norm_limit(factor * largest_norm(bits, share), 1, members, bits, 1000)] * members
        assert is_unambiguous(squares, colluders) is fine


def test_half_the_bound_on_words_is_a_limit_for_a_third_of_colluders():
    assert largest_norm(fraction_bits(8.0), 1 / 3) == pytest.approx(0.51 * 8, rel=0.01)
