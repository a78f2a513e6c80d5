"""SCMA: exact within the capacity, an error beyond it, never nonsense."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.methods.kmeans import field as gf
from fedgrove.node.methods.kmeans.code import Code
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.decoder import decode
from fedgrove.node.methods.kmeans.grid import BinGrid
from fedgrove.node.methods.kmeans.masks import apply_masks

KEY = b"a key of a round"
PLANE = BinGrid(2, 0.1, 50)  # 10,201 bins
SPACE = BinGrid(12, 0.1, 50)  # 80 bits
GRIDS = {"direct": (PLANE, b""), "hashed": (PLANE, KEY), "large": (SPACE, KEY)}
PLAIN = settings(max_examples=60)


def make(kind: str, capacity: int, limit: int = 10**6, *, signed: bool = False) -> Code:
    grid, key = GRIDS[kind]
    return Code(grid, capacity, limit, key, signed)


def bins(grid: BinGrid, numbers: list[int]) -> np.ndarray:
    """Levels of the bins of such numbers: of bin 0 the lowest level everywhere, its neighbour is bin 1."""
    places = 101 ** np.minimum(np.arange(grid.dimensions), 9)  # numbers are below 101⁹
    return np.array(numbers, np.int64).reshape(-1, 1) // places % 101 - 50


def vector(grid: BinGrid, counts: dict[int, int]) -> BinCounts:
    return BinCounts.of(bins(grid, list(counts)), np.array(list(counts.values()), np.int64))


NUMBERS = st.one_of(st.integers(0, 20), st.integers(0, 101**2 - 1))  # crowded at bin 0, or anywhere in the plane
CLIENTS = st.lists(st.dictionaries(NUMBERS, st.integers(1, 500), max_size=4), min_size=1, max_size=6)


@pytest.mark.parametrize("kind", GRIDS)
@given(clients=CLIENTS, seed=st.integers(0, 2**32))
@PLAIN
def test_the_sum_of_masked_uploads_decodes_to_the_sum(kind, clients, seed):
    code = make(kind, 4 * len(clients))
    vectors = [vector(code.grid, counts) for counts in clients]
    rng = np.random.default_rng(seed)
    keys = [rng.bytes(32) for _ in vectors]
    uploads = [
        apply_masks(code.encode(one), add=[keys[place]], subtract=[keys[place - 1]])
        for place, one in enumerate(vectors)
    ]
    assert decode(code, gf.total(np.array(uploads))) == sum(vectors, BinCounts.empty(code.grid.dimensions))


@pytest.mark.parametrize("kind", GRIDS)
@given(
    before=st.dictionaries(NUMBERS, st.integers(1, 500), max_size=6),
    after=st.dictionaries(NUMBERS, st.integers(1, 500), max_size=6),
)
@PLAIN
def test_differences_are_decoded_with_their_signs(kind, before, after):
    code = make(kind, 12, signed=True)
    difference = vector(code.grid, after) - vector(code.grid, before)
    assert decode(code, code.encode(difference)) == difference


@given(CLIENTS)
@PLAIN
def test_direct_and_hashed_points_agree(clients):
    total = sum((vector(PLANE, counts) for counts in clients), BinCounts.empty(2))
    results = [decode(code, code.encode(total)) for code in (make("direct", 24), make("hashed", 24))]
    assert results == [total, total]


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize(
    "counts",
    [
        {0: 1},  # the first bin
        {101**2 - 1: 1},  # the last bin of the plane
        dict.fromkeys(range(8), 1),  # neighbours, the capacity used up
        {0: 10**6},  # as many points as agreed
        {0: 10**6 - 7, **dict.fromkeys(range(1, 8), 1)},
        {},
    ],
)
def test_extreme_vectors(kind, counts):
    code = make(kind, 8)
    assert decode(code, code.encode(vector(code.grid, counts))) == vector(code.grid, counts)


@pytest.mark.parametrize("kind", GRIDS)
def test_two_clients_in_the_same_bins(kind):
    code = make(kind, 4)
    one, other = vector(code.grid, {3: 10, 4: 20}), vector(code.grid, {3: 5, 4: 1, 9: 2})
    assert decode(code, gf.add(code.encode(one), code.encode(other))) == vector(code.grid, {3: 15, 4: 21, 9: 2})


@pytest.mark.parametrize(("dimensions", "bins"), [(52, 60), (784, 12)])
def test_high_dimensions_are_exact(dimensions, bins):
    """Bins whose numbers have 360 and 5,000 bits, among them neighbours in a single level."""
    grid = BinGrid.covering(dimensions, 1 / np.sqrt(15_120))
    rng = np.random.default_rng(dimensions)
    levels = rng.integers(-grid.half, grid.half + 1, (bins, dimensions))
    levels[1], levels[3] = levels[0], levels[2]
    levels[1, -1], levels[3, 0] = -levels[0, -1], -levels[2, 0]
    total = BinCounts.of(levels, rng.integers(1, 200, bins))
    code = Code(grid, bins, 15_120, KEY)
    assert decode(code, code.encode(total)) == total


def test_large_sums_in_blocks():
    code = make("large", 300)
    total = vector(SPACE, {number**3: number for number in range(1, 301)})
    assert decode(code, code.encode(total)) == total


# beyond the capacity


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("bins", [9, 10, 11, 16, 24])
def test_more_bins_than_agreed_are_an_error(kind, bins):
    code = make(kind, 8)
    whole = vector(code.grid, {number * 7: number + 1 for number in range(bins)})
    halves = [BinCounts(whole.levels[part], whole.counts[part]) for part in (slice(0, 8), slice(8, 16), slice(16, 24))]
    with pytest.raises(InvalidContent, match="more than 8 bins"):
        decode(code, gf.total(np.array([code.encode(half) for half in halves])))


def test_a_client_does_not_encode_beyond_the_capacity():
    code = make("direct", 2, limit=10)
    for counts, message in (
        ({1: 1, 2: 1, 3: 1}, "3 bins are occupied, but the terms allow 2 in a sum"),
        ({1: 11}, "11 points are counted, but the terms allow 10 in a sum"),
        ({1: -1}, "negative"),
    ):
        with pytest.raises(InvalidInput, match=message):
            code.encode(vector(PLANE, counts))


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("signed", [False, True])
def test_more_points_than_agreed_are_an_error(kind, signed):
    code = make(kind, 4, limit=10, signed=signed)
    upload = code.encode(vector(code.grid, {1: 6, 2: 1}))
    with pytest.raises(InvalidContent, match="more than the 10 points"):
        decode(code, gf.add(upload, upload))


def test_a_negative_count_is_an_error_where_none_was_agreed():
    with pytest.raises(InvalidContent, match="negative"):
        decode(make("direct", 4), make("direct", 4, signed=True).encode(vector(PLANE, {1: 5, 2: -1})))


# wrong sums


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("capacity", [1, 2, 8])
def test_masks_that_do_not_cancel_are_told(kind, capacity):
    code = make(kind, capacity)
    upload = code.encode(vector(code.grid, {5: 7}))
    for seed in range(50):
        key = np.random.default_rng(seed).bytes(32)
        with pytest.raises(InvalidContent):
            decode(code, apply_masks(upload, add=[key]))


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("counts", [{}, {5: 7}, {0: 1, 1: 2, 2: 3, 77: 1}])
def test_one_wrong_element_anywhere_is_told(kind, counts):
    code = make(kind, 4)
    upload = code.encode(vector(code.grid, counts))
    for place in range(code.length):
        for change in (1, gf.PRIME - 1, 123456789):
            wrong = upload.copy()
            wrong[place] = (int(wrong[place]) + change) % gf.PRIME
            with pytest.raises(InvalidContent):
                decode(code, wrong)


def test_a_sum_of_another_form_is_told():
    code = make("direct", 2)
    for wrong in (np.zeros(5, gf.ELEMENT), np.zeros(6, np.int64), np.full(6, gf.PRIME, gf.ELEMENT)):
        with pytest.raises(InvalidContent, match="6 elements"):
            decode(code, wrong)


def test_points_outside_the_grid_are_told():
    wide = Code(BinGrid(3, 0.1, 50), 4, 100)
    with pytest.raises(InvalidContent, match="does not decode to bins"):
        decode(make("direct", 4), wide.encode(BinCounts.of(np.array([[50, 50, 50]]), np.array([1]))))


def test_two_bins_with_one_hash_are_told_and_noticed(monkeypatch):
    """Counts 1 and 1, even levels: the mean of the two bins is a bin itself, only its hash is wrong."""
    true_points = Code.points

    def colliding(self, pieces):
        points = true_points(self, pieces)
        first, second = self.grid.pieces(np.array([[2] * 12, [4] * 12]))
        clash = (pieces == first).all(axis=1) | (pieces == second).all(axis=1)
        points[clash] = 77
        return points

    monkeypatch.setattr(Code, "points", colliding)
    code = make("large", 4)
    two = BinCounts.of(np.array([[2] * 12, [4] * 12]), np.array([1, 1]))
    with pytest.raises(InvalidContent, match="share a hash"):
        decode(code, code.encode(two))
    # even if the third bin had the same hash, both clients would miss their bins
    wrong = BinCounts.of(np.array([[3] * 12]), np.array([2]))
    assert two.levels[0].tolist() not in wrong.levels.tolist()


# the agreement


def test_bytes_of_an_upload():
    assert make("direct", 400).upload_bytes == 8 * 802
    assert make("large", 400).upload_bytes == 8 * (802 + 2 * 400)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"capacity": 0}, "capacity is 0"),
        ({"limit": 0}, "limit is 0"),
        ({"limit": 1 << 41}, "limit is"),
        ({"key": b""}, "set a key"),
        ({"key": b"short"}, "5 bytes"),
        ({"key": bytes(65)}, "65 bytes"),
    ],
)
def test_impossible_agreements(changed, message):
    terms = {"grid": SPACE, "capacity": 4, "limit": 10, "key": KEY} | changed
    with pytest.raises(ValueError, match=message):
        Code(**terms)


def test_the_key_is_not_shown():
    assert "a key of a round" not in repr(make("large", 4))
