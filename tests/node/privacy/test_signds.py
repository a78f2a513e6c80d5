"""SignDS: the ε-local privacy of what the code draws, by enumeration; distributions; hostile uploads."""

import decimal
import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.special import gammaln, logsumexp

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.privacy import signds
from fedgrove.node.privacy.accountant import PureRelease, epsilon_of
from fedgrove.node.privacy.settings import SignDsSettings
from fedgrove.node.privacy.signds import (
    Selection,
    SignDsMechanism,
    add_vote,
    mean_vote,
    mechanism_for,
    select,
    top_dimensions,
)

ALPHA = 1e-3
SMALL = mechanism_for(SignDsSettings(epsilon=2.0, top=0.25, dimensions=4), 40)


def seeded(seed: int):
    return np.random.default_rng(seed).bytes


def probabilities(mechanism: SignDsMechanism) -> np.ndarray:
    """P(ν = τ) for τ = 0 … h: float64 (h + 1,)."""
    weights = mechanism.weights()
    return np.array([weight / sum(weights) for weight in weights])


def expected_top(mechanism: SignDsMechanism) -> float:
    """E[ν], the number of uploaded dimensions that are expected from S_k."""
    return float(probabilities(mechanism) @ np.arange(mechanism.dimensions + 1))


def log_choose(n, r):
    return gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1)


class Explorer:
    """Runs a sampler once for each outcome of its choices; gives the exact distribution of what it returns."""

    def __init__(self) -> None:
        self._path: list[int] = []
        self._step = 0
        self._chance = Fraction(1)

    def below(self, bound, random):
        return self._choose([1] * bound)

    def index(self, weights, random):
        possible = [index for index, weight in enumerate(weights) if weight]
        return possible[self._choose([weights[index] for index in possible])]

    def distribution(self, sample) -> dict:
        result = defaultdict(Fraction)
        self._path = []
        while True:
            self._step, self._chance, self._widths = 0, Fraction(1), []
            outcome = sample()
            result[outcome] += self._chance
            while self._path and self._path[-1] + 1 == self._widths[len(self._path) - 1]:
                self._path.pop()
            if not self._path:
                return dict(result)
            self._path[-1] += 1

    def _choose(self, weights):
        if self._step == len(self._path):
            self._path.append(0)
        choice = self._path[self._step]
        self._step += 1
        self._widths.append(len(weights))
        self._chance *= Fraction(weights[choice], sum(weights))
        return choice


@pytest.fixture
def explorer(monkeypatch):
    explorer = Explorer()
    monkeypatch.setattr(signds, "uniform_below", explorer.below)
    monkeypatch.setattr(signds, "draw_index", explorer.index)
    return explorer


@pytest.mark.parametrize(
    ("length", "top", "size", "epsilon"), [(5, 2, 2, 1.0), (5, 1, 3, 0.5), (6, 3, 2, 100.0), (5, 2, 4, 3.0)]
)
def test_no_output_is_more_than_exp_epsilon_times_likelier_under_any_other_update(explorer, length, top, size, epsilon):
    mechanism = mechanism_for(SignDsSettings(epsilon=epsilon, top=top / length, dimensions=size), length)
    assert (mechanism.top, mechanism.dimensions) == (top, size)
    inputs = [np.array(order, np.float32) for order in itertools.permutations(range(length))]
    # One update for each pair of top and bottom sets; the order inside a set changes nothing.
    inputs = list({(frozenset(np.argsort(x)[:top]), frozenset(np.argsort(x)[-top:])): x for x in inputs}.values())
    tied = [np.zeros(length, np.float32), np.array([1, 1] + [0] * (length - 2), np.float32)]
    outputs = [(sign, j) for sign in (1, -1) for j in itertools.combinations(range(length), size)]
    found = []
    for update in inputs + tied:
        chances = explorer.distribution(lambda update=update: _output(mechanism, update))
        assert sum(chances.values()) == 1
        found.append([chances.get(output, Fraction(0)) for output in outputs])
    # A set that one update can never give would break every ε.
    assert min(map(min, found)) > 0
    worst = max(max(chances) / min(chances) for chances in zip(*found, strict=True))
    assert worst == Fraction(mechanism.boost, 2**64)
    assert worst <= Fraction(decimal.Context(prec=120).exp(decimal.Decimal(epsilon)))


@pytest.mark.parametrize(
    ("length", "top", "size", "epsilon"),
    [(8, 2, 2, 0.3), (8, 2, 3, 1.0), (7, 3, 3, 5.0), (8, 1, 1, 2.0), (6, 3, 2, 8.0)],
)
def test_three_points_dominate_every_pair_of_updates(length, top, size, epsilon):
    mechanism = mechanism_for(SignDsSettings(epsilon=epsilon, top=top / length, dimensions=size), length)
    low = 1 / Fraction(mechanism.boost, 2**64)
    counts = signds.set_counts(length, top, size)
    single = [
        Fraction(w, sum(mechanism.weights()) * n) if n else 0 for w, n in zip(mechanism.weights(), counts, strict=True)
    ]
    sets = [set(j) for j in itertools.combinations(range(length), size)]
    first = set(range(top))
    p = [single[len(first & j)] for j in sets]
    assert sum(p) == 1
    for other in itertools.combinations(range(length), top):
        q = [single[len(set(other) & j)] for j in sets]
        for scale in (0, low, 1, 2, 1 / low):  # e^ε'
            excess = sum(max(Fraction(0), one - scale * two) for one, two in zip(p, q, strict=True))
            a = Fraction(mechanism.chance) * (1 + Fraction(1, 2**50))
            points = ((a, a * low), (1 - a - a * low, 1 - a - a * low), (a * low, a))
            assert excess <= sum(max(Fraction(0), one - scale * two) for one, two in points)


def _output(mechanism, update):
    selection = select(mechanism, update, None)
    return selection.sign, tuple(selection.dimensions.tolist())


@pytest.mark.parametrize("population", [1, 2, 5, 6])
def test_every_subset_is_equally_likely(explorer, population):
    for size in range(population + 1):
        chances = explorer.distribution(lambda size=size: tuple(signds.subset(population, size, None).tolist()))
        assert set(chances) == set(itertools.combinations(range(population), size))
        assert set(chances.values()) == {Fraction(1, math.comb(population, size))}


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 128, 200, 256])
def test_integers_below_a_bound_are_uniform_over_all_random_bytes(bound):
    counts = np.zeros(bound, int)
    for byte in range(256):
        values = iter([bytes([byte])])
        try:
            counts[signds.uniform_below(bound, lambda size, values=values: next(values) if size else b"")] += 1
        except StopIteration:
            continue  # refused, and drawn again
    assert len(set(counts)) == 1 and counts[0] > 0


def test_integers_of_many_bytes_reach_both_ends():
    bound = 2**130 + 1
    assert signds.uniform_below(bound, lambda size: bytes(size)) == 0
    draws = iter([b"\xff" * 17, (2**130 << 5).to_bytes(17)])
    assert signds.uniform_below(bound, lambda size: next(draws)) == 2**130


def test_an_index_is_drawn_in_proportion_to_its_weight(monkeypatch):
    weights = [3, 0, 1, 4]
    points = iter(range(8))
    monkeypatch.setattr(signds, "uniform_below", lambda bound, random: next(points))
    assert [signds.draw_index(weights, None) for _ in range(8)] == [0, 0, 0, 2, 3, 3, 3, 3]


@pytest.mark.parametrize(
    ("length", "epsilon", "size", "threshold", "expected", "upload"),
    [
        (44_426, 100, 43, 26, 25.95, 176),
        (1_663_370, 100, 43, 26, 25.98, 176),
        (44_426, 10, 2, 2, 1.38, 12),
        (1_663_370, 10, 2, 2, 1.38, 12),
        (44_426, 4, 1, 1, 0.355, 8),
        (1_663_370, 1, 1, 1, 0.027, 8),
    ],
)
def test_the_reference_values_come_out(length, epsilon, size, threshold, expected, upload):
    mechanism = mechanism_for(SignDsSettings(epsilon=epsilon), length)
    assert (mechanism.dimensions, mechanism.threshold, mechanism.upload_bytes) == (size, threshold, upload)
    assert expected_top(mechanism) == pytest.approx(expected, abs=5e-3)
    assert mechanism.upload_bytes < 0.01 * 4 * length


@pytest.mark.parametrize("size", [1, 7, 43, 64, 400])
def test_probabilities_equal_those_in_log_space(size):
    length, epsilon = 1_663_370, 100.0
    mechanism = mechanism_for(SignDsSettings(epsilon=epsilon, dimensions=size), length)
    top, taus = mechanism.top, np.arange(size + 1)
    counts = log_choose(top, taus) + log_choose(length - top, size - taus)
    expected = {}
    for threshold in range(1, size + 1):
        weights = counts + epsilon * (taus >= threshold)
        expected[threshold] = (np.exp(weights - logsumexp(weights)) * taus).sum()
    assert mechanism.threshold == max(expected, key=expected.get)
    assert expected_top(mechanism) == pytest.approx(expected[mechanism.threshold], rel=1e-5)
    weights = counts + epsilon * (taus >= mechanism.threshold)
    assert probabilities(mechanism) == pytest.approx(np.exp(weights - logsumexp(weights)), rel=1e-4, abs=1e-12)


def test_an_automatic_h_is_the_largest_that_keeps_the_share():
    settings = SignDsSettings(epsilon=20, share=0.6)
    mechanism = mechanism_for(settings, 44_426)
    shares = {
        h: expected_top(mechanism_for(SignDsSettings(epsilon=20, dimensions=h), 44_426)) / h for h in range(1, 51)
    }
    assert mechanism.dimensions == max(h for h, share in shares.items() if share >= 0.6) > 1


def test_a_top_set_smaller_than_h_is_no_trouble():
    mechanism = mechanism_for(SignDsSettings(epsilon=5, top=0.01, dimensions=8), 10)
    assert mechanism.top == 1 and mechanism.threshold == 1
    assert probabilities(mechanism)[2:].sum() == 0
    assert len(select(mechanism, np.arange(10, dtype=np.float32), seeded(0)).dimensions) == 8


@given(st.floats(1e-3, 1000))
def test_exp_epsilon_is_rounded_down(epsilon):
    exact = Fraction(decimal.Context(prec=600, Emax=10**6).exp(decimal.Decimal(epsilon))) * 2**64
    assert exact - 2 < signds.boost_of(epsilon) <= exact


def test_hits_follow_their_distribution():
    """6,000 draws: an ε that is a fifth too small, or a threshold one too low, would be found with 99.9 %."""
    draws, update = 6_000, np.random.default_rng(1).normal(size=SMALL.length).astype(np.float32)
    random = seeded(2)
    hits = np.zeros(SMALL.dimensions + 1, int)
    for _ in range(draws):
        selection = select(SMALL, update, random)
        inside = top_dimensions(update, SMALL.top, selection.sign, None)
        hits[np.isin(selection.dimensions, inside).sum()] += 1
    expected = probabilities(SMALL)
    assert stats.chisquare(hits, draws * expected).pvalue > ALPHA
    limit = stats.chi2.isf(ALPHA, SMALL.dimensions)
    for other in (
        SignDsMechanism(1.6, SMALL.length, SMALL.top, SMALL.dimensions, SMALL.threshold, signds.boost_of(1.6)),
        SignDsMechanism(2.0, SMALL.length, SMALL.top, SMALL.dimensions, SMALL.threshold - 1, SMALL.boost),
    ):
        distance = draws * ((probabilities(other) - expected) ** 2 / expected).sum()
        assert stats.ncx2.sf(limit, SMALL.dimensions, distance) > 0.999


def test_signs_and_dimensions_are_uniform():
    """Within S_k and outside of it each dimension is as likely as the next; both signs are."""
    draws, update = 6_000, np.random.default_rng(3).permutation(SMALL.length).astype(np.float32)
    random = seeded(4)
    rank = np.empty(SMALL.length, int)
    counts = np.zeros((2, SMALL.length), int)
    signs = 0
    variance = np.zeros(2)
    sizes = np.array([SMALL.top, SMALL.length - SMALL.top])
    for _ in range(draws):
        selection = select(SMALL, update, random)
        signs += selection.sign > 0
        rank[:] = selection.sign * update
        inside = np.isin(selection.dimensions, top_dimensions(update, SMALL.top, selection.sign, None))
        order = np.argsort(np.argsort(-rank))[selection.dimensions]  # dimension as its place in the order
        counts[0, order[inside]] += 1
        counts[1, order[~inside]] += 1
        taken = np.array([inside.sum(), (~inside).sum()])
        variance += taken / sizes * (1 - taken / sizes) * sizes / (sizes - 1)
    assert stats.binomtest(signs, draws).pvalue > ALPHA
    for group, columns, size, spread in zip(
        counts, (slice(0, SMALL.top), slice(SMALL.top, None)), sizes, variance, strict=True
    ):
        drawn = group[columns]
        assert group.sum() == drawn.sum()
        statistic = ((drawn - drawn.mean()) ** 2).sum() / spread
        assert stats.chi2.sf(statistic, size - 1) > ALPHA


@given(arrays(np.float32, st.integers(2, 30), elements=st.sampled_from([-2, -1, -0.0, 0.0, 1, 2])), st.data())
def test_the_top_holds_the_largest_values(update, data):
    top = data.draw(st.integers(1, len(update)))
    for sign in (1, -1):
        found = top_dimensions(update, top, sign, seeded(0))
        assert len(set(found.tolist())) == top and np.array_equal(found, np.sort(found))
        assert np.array_equal(np.sort(sign * update[found]), np.sort(sign * update)[-top:])


def test_ties_at_the_end_of_the_top_are_decided_by_lot(explorer):
    update = np.array([0, 3, 0, 0, -1], np.float32)
    chances = explorer.distribution(lambda: tuple(top_dimensions(update, 2, 1, None).tolist()))
    assert chances == {(0, 1): Fraction(1, 3), (1, 2): Fraction(1, 3), (1, 3): Fraction(1, 3)}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_update_that_is_not_finite_counts_as_zero(value):
    update = np.arange(SMALL.length, dtype=np.float32)
    update[7] = value
    zero = np.zeros_like(update)
    assert select(SMALL, update, seeded(0)).to_bytes() == select(SMALL, zero, seeded(0)).to_bytes()


@pytest.mark.parametrize("update", [np.zeros(SMALL.length), np.zeros(39, np.float32), np.zeros((2, 20), np.float32)])
def test_an_update_of_another_form_is_refused(update):
    with pytest.raises(ValueError, match="40 float32 parameters"):
        select(SMALL, update, seeded(0))


def test_huge_values_count_by_their_order_only():
    same = np.random.default_rng(6).permutation(SMALL.length).astype(np.float32)
    update = same * np.float32(3e38 / SMALL.length)
    for seed in range(20):
        assert select(SMALL, update, seeded(seed)).to_bytes() == select(SMALL, same, seeded(seed)).to_bytes()


@given(st.integers(0, 2**32), st.sampled_from([1, -1]))
def test_an_upload_survives_the_journey(seed, sign):
    chosen = np.random.default_rng(seed).choice(SMALL.length, SMALL.dimensions, replace=False)
    selection = Selection(sign, np.sort(chosen).astype(np.uint32))
    data = selection.to_bytes()
    again = Selection.from_bytes(data, SMALL)
    assert len(data) == SMALL.upload_bytes and again.sign == sign and again.to_bytes() == data
    assert np.array_equal(again.dimensions, selection.dimensions)


@given(
    st.one_of(
        st.binary(max_size=40),
        st.builds(
            lambda head, dimensions: head + np.array(dimensions, ">u4").tobytes(),
            st.sampled_from([b"SD\x01\x00", b"SD\x01\x01", b"SD\x01\x02", b"SD\x02\x01", b"SE\x01\x01"]),
            st.lists(st.integers(0, 45) | st.integers(0, 2**32 - 1), min_size=3, max_size=5),
        ),
    )
)
def test_hostile_bytes_are_refused_or_are_a_lawful_upload(data):
    try:
        selection = Selection.from_bytes(data, SMALL)
    except InvalidContent:
        return
    assert selection.to_bytes() == data
    assert selection.sign in (1, -1)
    assert len(set(selection.dimensions.tolist())) == SMALL.dimensions
    assert selection.dimensions.max() < SMALL.length


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "0 bytes"),
        (b"SD\x01\x01" + bytes(16) + b"\x00", "21 bytes"),
        (b"SD\x02\x01" + bytes(16), "version 1"),
        (b"SD\x01\x02" + bytes(16), "sign"),
        (b"SD\x01\x01" + np.array([1, 1, 2, 3], ">u4").tobytes(), "ascend"),
        (b"SD\x01\x01" + np.array([2, 1, 3, 4], ">u4").tobytes(), "ascend"),
        (b"SD\x01\x01" + np.array([1, 2, 3, 40], ">u4").tobytes(), "not in the model"),
        (b"SD\x01\x01" + np.array([1, 2, 3, 2**32 - 1], ">u4").tobytes(), "not in the model"),
    ],
)
def test_the_fault_of_an_upload_is_named(data, fault):
    with pytest.raises(InvalidContent, match=fault):
        Selection.from_bytes(data, SMALL)


def test_the_sum_of_votes_is_the_same_in_any_order():
    update = np.random.default_rng(5).normal(size=SMALL.length).astype(np.float32)
    selections = [select(SMALL, update, seeded(seed)) for seed in range(33)]
    sums = []
    for order in (selections, selections[::-1]):
        votes = np.zeros(SMALL.length, np.int32)
        for selection in order:
            add_vote(votes, selection)
        sums.append(mean_vote(votes, 33, 0.1))
    assert sums[0].tobytes() == sums[1].tobytes() and sums[0].dtype == np.float32
    dense = np.zeros(SMALL.length)
    for selection in selections:
        dense[selection.dimensions] += selection.sign
    assert sums[0] == pytest.approx(dense * 0.1 / 33, rel=1e-6)


def test_one_client_moves_h_dimensions_by_its_share_of_the_step():
    votes = np.zeros(SMALL.length, np.int32)
    add_vote(votes, Selection(-1, np.array([0, 3, 4, 39], np.uint32)))
    add_vote(votes, Selection(1, np.array([0, 5, 6, 7], np.uint32)))
    update = mean_vote(votes, 2, 0.5)
    assert update[[0, 3, 4, 39]].tolist() == [0, -0.25, -0.25, -0.25]
    assert np.flatnonzero(update).tolist() == [3, 4, 5, 6, 7, 39]


@pytest.mark.parametrize(("length", "size"), [(1, 0), (5, 6), (2**32 + 1, 0)])
def test_a_model_too_small_or_too_large_is_refused(length, size):
    with pytest.raises(InvalidInput, match="cannot choose"):
        mechanism_for(SignDsSettings(dimensions=size), length)


@pytest.mark.parametrize(("epsilon", "uploads"), [(0.5, 100), (4.0, 12), (10.0, 5), (100.0, 20)])
def test_many_uploads_cost_what_the_sum_of_three_point_losses_says(epsilon, uploads):
    """The sum's distribution by convolution; δ(ε') = Σ P(loss) · (1 − e^(ε' − loss)) over losses above ε'."""
    mechanism = mechanism_for(SignDsSettings(epsilon=epsilon), 44_426)
    a = min(mechanism.chance, 1 / (1 + math.exp(-epsilon)))
    single = np.array([a * math.exp(-epsilon), 1 - a - a * math.exp(-epsilon), a])
    total = np.ones(1)
    for _ in range(uploads):
        total = np.convolve(total, single)
    losses = epsilon * np.arange(-uploads, uploads + 1)
    delta = 1e-5
    spent = epsilon_of([PureRelease(epsilon, uploads, mechanism.chance)], delta)
    for tested, holds in ((spent, True), (spent - 0.02 * epsilon, False)):
        above = losses > tested
        assert ((total[above] * -np.expm1(tested - losses[above])).sum() <= delta * (1 + 1e-9)) == holds
    assert spent <= epsilon_of([PureRelease(epsilon, uploads)], delta) + 1e-6 <= uploads * epsilon * (1 + 1e-4)
