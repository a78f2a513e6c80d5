"""Which tensors a pair masks when κ < 1."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.coverage import _parting_level, pair_spans, pair_tensors, thinnest
from fedgrove.node.masking.graph import build_graph
from tests.node.masking.rounds import CONTEXT, Round, tree_partners

LAYOUT = Layout(("a", "b", "c", "d"), ((3,), (0,), (2, 2), ()))


@st.composite
def pairs(draw):
    n = draw(st.integers(2, 80))
    a = draw(st.integers(0, n - 1))
    b = draw(st.integers(0, n - 1).filter(lambda q: q != a))
    return n, a, b


@given(pairs(), st.integers(1, 20), st.floats(0.01, 1))
def test_both_sides_mask_the_same_fraction_rounded_down(pair, count, kappa):
    n, a, b = pair
    chosen = pair_tensors(a, b, n, count, kappa)
    assert chosen == pair_tensors(b, a, n, count, kappa)
    assert len(chosen) == int(kappa * count) and chosen <= set(range(count))


@given(pairs())
def test_everything_is_masked_with_kappa_one(pair):
    n, a, b = pair
    assert pair_spans(a, b, n, LAYOUT, 1.0) == ((0, 8),)


@given(pairs(), st.floats(0.01, 1))
def test_spans_are_the_chosen_tensors_joined(pair, kappa):
    n, a, b = pair
    spans = pair_spans(a, b, n, LAYOUT, kappa)
    covered = [index for start, stop in spans for index in range(start, stop)]
    tensors = {0: [0, 1, 2], 1: [], 2: [3, 4, 5, 6], 3: [7]}
    assert covered == [i for t in sorted(pair_tensors(a, b, n, 4, kappa)) for i in tensors[t]]
    assert all(stop < start for (_, stop), (start, _) in pairwise(spans))


@given(pairs(), st.floats(0.01, 1), st.integers(1, 9))
def test_every_pair_masks_the_words_behind_the_model(pair, kappa, behind):
    n, a, b = pair
    spans, bare = (pair_spans(a, b, n, LAYOUT, kappa, each) for each in (behind, 0))
    covered, alone = ([index for start, stop in each for index in range(start, stop)] for each in (spans, bare))
    assert covered == [*alone, *range(LAYOUT.length, LAYOUT.length + behind)]
    assert all(stop < start for (_, stop), (start, _) in pairwise(spans))


@pytest.mark.parametrize("kappa", [0, -0.5, 1.01, float("nan")])
def test_an_absurd_fraction_is_refused(kappa):
    with pytest.raises(ValueError, match="kappa"):
        pair_tensors(0, 1, 2, 4, kappa)


def test_the_level_at_which_leaves_part():
    """n = 8: bit by bit; n = 5 splits into 3 + 2, and 3 into 2 + 1."""
    assert [_parting_level(0, other, 8) for other in range(1, 8)] == [2, 1, 1, 0, 0, 0, 0]
    assert [_parting_level(0, other, 5) for other in range(1, 5)] == [2, 1, 0, 0]


@pytest.mark.parametrize(("n", "kappa"), [(16, 0.5), (32, 0.5), (64, 0.34)])
def test_the_pairs_of_the_tree_go_round_all_tensors(n, kappa):
    """⌊levels · κ⌋ pairs at least cover each of 12 tensors of every client."""
    graph = build_graph(CONTEXT, Round.make(n).graph.participants, tree_partners(n), seed=b"")
    levels = n.bit_length() - 1
    for position in range(n):
        assert thinnest(graph, position, range(n), 12, kappa)[0] >= int(levels * kappa)


def test_only_partners_that_are_present_count():
    graph = Round.make(8).graph
    assert thinnest(graph, 0, range(8), 4, 1.0) == (3, 0)
    assert thinnest(graph, 0, [0, 1], 4, 1.0) == (1, 0)
    assert thinnest(graph, 0, [0], 4, 1.0) == (0, 0)


@pytest.mark.parametrize("kappa", [0.3, 1.0])
def test_words_without_tensors_wear_the_mask_of_every_pair_that_is_present(kappa):
    graph = Round.make(8).graph
    partners = graph.neighbours[0]
    assert thinnest(graph, 0, range(8), 0, kappa) == (len(partners), 0)
    assert thinnest(graph, 0, [0, *partners[:2]], 0, kappa) == (2, 0)
    assert thinnest(graph, 0, [0], 0, kappa) == (0, 0)
