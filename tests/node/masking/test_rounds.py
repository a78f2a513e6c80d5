"""Whole rounds with random drop-outs at every step: the exact sum of the survivors, or a typed failure, its reason."""

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.aggregate import Aggregate
from fedgrove.node.masking.client import mask_words
from fedgrove.node.masking.parameters import Sharing
from fedgrove.node.masking.recovery import TooFewShares
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.masking.survivors import needed_secrets
from tests.node.masking.liars import with_garbage
from tests.node.masking.rounds import LAYOUT, Round

NOTHING = Layout((), ())
WIDE = Layout(tuple("abcdefgh"), ((2,),) * 8)
SLOW = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}


def main_part(work: Round, survivors: set[int]) -> set[int]:
    """The largest part of survivors that pairs connect, by their union: apart from the search in survivors.py."""
    groups = {p: p for p in survivors}
    for _ in survivors:
        for p in survivors:
            for q in set(work.graph.neighbours[p]) & survivors:
                groups[p] = groups[q] = min(groups[p], groups[q])
    parts = [{p for p in survivors if groups[p] == lowest} for lowest in sorted(set(groups.values()))]
    return max(parts, key=len, default=set())


def play(work: Round, sharers: list[int], committers: list[int], holders: list[int], broken: dict[int, list[int]]):
    """Play a round; return the closed model, or raise what stopped it. Everything is checked on the way."""
    blobs = {p: work.blob(p) for p in sharers}
    for owner, receivers in broken.items():
        if owner in blobs:
            blobs[owner] = with_garbage(blobs[owner], {index % len(work.graph.holders[owner]) for index in receivers})
    survivors = []
    for p in committers:
        try:
            work.masked(p, sharers)
            survivors.append(p)
        except MaskingRefused:
            assert not set(work.graph.neighbours[p]) & set(sharers) or work.kappa < 1
    releases = {p: work.released(p, blobs, survivors) for p in holders}
    record = work.recovered(blobs, survivors, releases)
    return survivors, work.closed(sharers, survivors, record)


def check(work: Round, sharers: list[int], committers: list[int], holders: list[int], broken=None) -> str:
    """Play; compare with the oracle, or check that the failure's reason is a fact."""
    broken = broken or {}
    able = {p for p in committers if set(work.graph.neighbours[p]) & set(sharers)}
    try:
        survivors, model = play(work, sharers, committers, holders, broken)
    except MaskingRefused as refusal:
        if "that mask with each other" in str(refusal):
            assert work.kappa < 1 or 2 * len(main_part(work, able)) <= work.graph.n or len(main_part(work, able)) < 3
            return "no main part"
        if "are needed" in str(refusal):
            assert work.kappa < 1 or len(able) < work.graph.min_survivors
            return "too few survivors"
        assert work.kappa < 1 and "no surviving partner" in str(refusal)
        return "bare tensor"
    except TooFewShares as lack:
        if "nothing may be recovered" in str(lack):
            assert not holders
            return "no holder"
        owner = next(p.position for p in work.graph.participants if p.client == lack.client)
        present = [
            i
            for i, holder in enumerate(work.graph.holders[owner])
            if holder in holders and i not in {j % len(work.graph.holders[owner]) for j in broken.get(owner, ())}
        ]
        assert len(present) < work.graph.threshold
        return "too few shares"
    if work.kappa == 1:
        assert set(survivors) == able
    summed = main_part(work, set(survivors))
    assert model.tobytes() == work.integer_mean(sorted(summed)).tobytes()
    return "closed" if len(summed) == len(survivors) else "left somebody out"


@st.composite
def rounds(draw, max_drop: float, **options):
    """A round with clients that drop out before share, before commit and before release, and blobs that are damaged."""
    n = draw(st.sampled_from([*range(2, 21), 32, 33, 40]))
    seed = draw(st.integers(0, 2**32))
    bound = draw(st.sampled_from([8.0, 1.0, 0.5, 100.0]))
    options = {name: draw(strategy) for name, strategy in options.items()}
    threshold = options.pop("threshold", None)
    if threshold is not None and n > 2:
        options["shares"] = Sharing(n - 1, min(threshold, n - 1))
    work = Round.make(n, seed, bound=bound, **options)
    random = Random(seed)
    rate = draw(st.floats(0, max_drop))
    sharers = [p for p in range(n) if random.random() >= rate]
    committers = [p for p in sharers if random.random() >= rate]
    holders = [p for p in range(n) if random.random() >= rate]
    broken = {p: [random.randrange(32) for _ in range(random.randrange(3))] for p in range(n) if random.random() < 0.2}
    return work, sharers, committers, holders, broken


@settings(max_examples=60, **SLOW)
@given(rounds(0.2, degree=st.integers(0, 6), threshold=st.one_of(st.none(), st.integers(2, 8))))
def test_bbtsa_gives_the_exact_sum_of_the_survivors_or_a_reason(case):
    event(check(*case))


@settings(max_examples=25, **SLOW)
@given(rounds(0.6, threshold=st.integers(2, 4)))
def test_many_drop_outs_never_give_a_wrong_model(case):
    event(check(*case))


@settings(max_examples=20, **SLOW)
@given(rounds(0.25, mode=st.just("pairwise")))
def test_pairwise_gives_the_exact_sum_of_the_survivors_or_a_reason(case):
    event(outcome := check(*case))
    assert outcome != "left somebody out"


@settings(max_examples=40, **SLOW)
@given(rounds(0.1, kappa=st.floats(0.25, 1), layout=st.just(WIDE), degree=st.integers(4, 20)))
def test_a_fraction_of_tensors_gives_the_exact_sum_or_a_reason(case):
    event(check(*case))


@pytest.mark.parametrize("n", [3, 4, 5, 8, 16, 31, 32, 33, 40])
@pytest.mark.parametrize("kappa", [1.0, 0.75])
def test_a_round_that_nobody_leaves_is_closed(n, kappa):
    everybody = list(range(n))
    work = Round.make(n, n, kappa=kappa, mode="pairwise" if kappa < 1 else "bbtsa", layout=LAYOUT)
    outcome = check(work, everybody, everybody, everybody)
    assert outcome == "closed" or (kappa < 1 and n < 8)


@pytest.mark.parametrize("n", [8, 12, 24, 40])
def test_a_quarter_may_drop_out_at_any_one_step(n):
    everybody, rest = list(range(n)), list(range(n - n // 4))
    for seed in range(3 if n < 20 else 1):
        work = Round.make(n, seed, degree=4)
        assert check(work, rest, rest, rest) == "closed"
        assert check(work, everybody, rest, rest) == "closed"
        assert check(work, everybody, everybody, rest) == "closed"


@pytest.mark.parametrize("n", range(3, 9))
def test_tree_and_complete_graph_close_the_same_model(n):
    """The closed model depends neither on partners nor on masks (so that a seed gives one CID)."""
    everybody, survivors = list(range(n)), list(range(n if n < 5 else n - 1))
    models = []
    for mode in ("bbtsa", "pairwise"):
        work = Round.make(n, 3, mode=mode)
        blobs = {p: work.blob(p) for p in everybody}
        models.append(work.closed(everybody, survivors, work.record(blobs, survivors, everybody)).tobytes())
    assert models[0] == models[1]


@settings(max_examples=25, **SLOW)
@given(st.integers(8, 14), st.integers(0, 2), st.integers(1, 9), st.floats(0.25, 1), st.integers(0, 99))
def test_words_without_a_model_are_summed_exactly(n, gone, behind, kappa, seed):
    """As in the round that only evaluates; whoever is gone had shared."""
    everybody, survivors = list(range(n)), list(range(n - gone))
    work = Round.make(n, seed, layout=NOTHING, kappa=kappa, mode="pairwise")
    words = np.random.default_rng(seed).integers(0, 1 << 32, (n, behind), np.uint32)
    blobs = {p: work.blob(p) for p in everybody}
    record = work.record(blobs, survivors, survivors)
    total = Aggregate(work.graph, everybody, survivors, record, NOTHING, 8.0, kappa=kappa, behind=behind)
    for position in survivors:
        masked = words[position].copy()
        mask_words(work.graph, position, work.secrets[position], everybody, masked, NOTHING, kappa=kappa, behind=behind)
        total.add(position, [masked.tobytes()])
    assert (total.unmasked() == words[survivors].sum(0, dtype=np.uint32)).all()


@pytest.mark.parametrize("kappa", [0.5, 1.0])
def test_words_without_a_model_are_refused_without_a_mask(kappa):
    work = Round.make(4, layout=NOTHING, kappa=kappa, mode="pairwise")
    with pytest.raises(MaskingRefused, match="the metrics of client 2 would be masked by 0 pairs"):
        mask_words(work.graph, 0, work.secrets[0], [0], np.zeros(3, np.uint32), NOTHING, kappa=kappa, behind=3)


def test_two_clients_are_never_unmasked():
    work = Round.make(2)
    with pytest.raises(MaskingRefused, match="2 clients survived, but 3 are needed"):
        needed_secrets(work.graph, (0, 1), (0, 1))
    with pytest.raises(InvalidContent):
        Round.make(2, shares=Sharing(1, 2))
