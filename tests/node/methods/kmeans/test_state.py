"""A state travels as bytes: equal states equal bytes, and nothing but a state is taken for one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.methods.kmeans.clustering import kmeans, most_points
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import KMeansTerms

SETTINGS = KMeansTerms(k=2, dimensions=2, step=0.1)


def a_state(counts=(3, 4, 5)) -> KMeansState:
    levels = np.arange(2 * len(counts)).reshape(-1, 2) - 3
    centres = np.arange(2.0 * min(2, len(counts))).reshape(-1, 2)
    return KMeansState(BinCounts.of(levels, np.array(counts, np.int64)), (2, 7), centres, 3, 2, 4)


@given(st.lists(st.integers(1, 1 << 30), min_size=1, max_size=5))
def test_a_state_survives_the_way_there_and_back(counts):
    state = a_state(counts)
    again = KMeansState.from_bytes(state.to_bytes(), SETTINGS)
    assert again.counts == state.counts and np.array_equal(again.centres, state.centres)
    assert (again.clients, again.round, again.whole, again.groups) == ((2, 7), 3, 2, 4)


def test_the_first_state_is_empty():
    first = KMeansState.empty(2)
    assert KMeansState.from_bytes(first.to_bytes(), SETTINGS).counts.total == 0
    with pytest.raises(InvalidContent, match="have shape"):
        KMeansState.from_bytes(first.to_bytes(), KMeansTerms(k=2, dimensions=3, step=0.1))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("counts", [3, 4, -5], "a count of the state is out of range"),
        ("counts", [3, 4, (1 << 40) + 1], "a count of the state is out of range"),
        ("counts", [3, 4], "have shape"),
        ("counts", 3, "have shape"),
        ("levels", [[-3, -2], [-3, -2], [1, 2]], "bins are not in order, each once"),
        ("levels", [[1, 2], [-3, -2], [-1, 0]], "bins are not in order"),
        ("levels", [[-11, -2], [-1, 0], [1, 2]], "a bin of the state is out of range"),
        ("levels", [[-(1 << 31), -2], [-1, 0], [1, 2]], "a bin of the state is out of range"),
        ("clients", [7, 2], "clients are not in order"),
        ("clients", [0, 7], "clients are not in order"),
        ("clients", [7, -(1 << 63)], "clients are not in order"),
        ("clients", 7, "have shape"),
        ("course", [3, 4, 1], "round is out of range"),
        ("course", [0, 0, 1], "round is out of range"),
        ("course", [3, -1, 1], "round is out of range"),
        ("course", [3, 3, 0], "round is out of range"),
        ("course", [3, 3], "have shape"),
        ("centres", [[0.0, np.nan], [2, 3]], "not finite"),
        ("centres", [[0.0, 1.0]], "centres have shape"),
    ],
)
def test_what_is_no_state_is_refused(name, value, sentence):
    arrays = load(a_state().to_bytes())
    arrays[name] = np.asarray(value, arrays[name].dtype)
    with pytest.raises(InvalidContent, match=sentence):
        KMeansState.from_bytes(save(arrays), SETTINGS)


def test_other_types_names_and_bytes_are_refused():
    arrays = load(a_state().to_bytes())
    for wrong in (
        b"",
        b"\xff" * 100,
        save({**arrays, "more": arrays["counts"]}),
        save({**arrays, "centres": arrays["centres"].astype(np.float32)}),
        save({name: array for name, array in arrays.items() if name != "course"}),
        save(arrays, {"said": "otherwise"}),
    ):
        with pytest.raises(InvalidContent):
            KMeansState.from_bytes(wrong, SETTINGS)


@pytest.mark.parametrize(
    "terms",
    [
        {"k": 0},
        {"k": 1_001},
        {"dimensions": 0},
        {"step": 0.0},
        {"step": float("inf")},
        {"step": 1e-6, "bound": 10.0},
        {"bound": -1.0},
        {"iterations": -1},
        {"restarts": 0},
        {"gather_blocks": 0},
        {"least_share": 0.09},
        {"least_share": 1.1},
        {"smallest_group": 2},
        {"step": 1e-6, "dimensions": 4_096},
        {"retry_blocks": 0},
    ],
)
def test_terms_out_of_range_are_refused(terms):
    with pytest.raises(InvalidInput):
        KMeansTerms(**{"k": 2, "dimensions": 2, "step": 0.1, **terms})


@pytest.mark.parametrize(("dimensions", "reach"), [(1, 1), (2, 10**5), (10, 100), (784, 192), (4_096, 1 << 14)])
def test_as_many_points_as_the_terms_allow_are_clustered_wherever_they_lie(dimensions, reach):
    """All in one corner but one in the opposite one: sums and distances are as large as they can be."""
    most = most_points(dimensions, reach)
    points = np.array([[reach] * dimensions, [-reach] * dimensions])
    found = kmeans(points, np.array([most - 1, 1]), 2, np.random.default_rng(0), restarts=2)
    assert np.array_equal(found.centres, points[::-1].astype(float))
    assert most >= 1 << 9
    with pytest.raises(ValueError, match="too large for exact clustering"):
        kmeans(points, np.array([4 * most, 4 * most]), 2, np.random.default_rng(0))
