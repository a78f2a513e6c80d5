"""Who is summed with whom in a round."""

from dataclasses import replace
from types import SimpleNamespace

from fedgrove.node.methods.kmeans.round_inputs import groups_of
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import KMeansTerms

TERMS = KMeansTerms(k=2, dimensions=2, step=0.25)


def test_groups_are_of_nearly_equal_size_and_have_everybody_once():
    rounds = SimpleNamespace(rounds={})
    current = SimpleNamespace(number=2, order=tuple(range(1, 9)))
    before, terms = replace(KMeansState.empty(2), groups=3), replace(TERMS, smallest_group=3)
    assert groups_of(rounds, current, before, terms) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert groups_of(rounds, current, before, replace(TERMS, smallest_group=5)) == ()
