"""Quantisation as appendix H has it; bins as integers and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidInput
from fedgrove.node.methods.kmeans.grid import PIECE_BITS, BinGrid


def test_a_point_goes_to_the_nearest_multiple_of_the_step():
    grid = BinGrid.covering(3, 0.25)
    assert grid.half == 4 and grid.radix == 9
    levels = grid.quantise(np.array([[0.1, 0.13, -0.9], [1.0, -1.0, 0.125]]))
    assert levels.tolist() == [[0, 1, -4], [4, -4, 0]]  # 0.125 lies between two levels and goes to the even one
    assert grid.centres(levels)[0].tolist() == [0, 0.25, -1]


@given(st.integers(1, 10**6), st.floats(-1, 1))
def test_the_error_is_half_a_step_at_most(points, value):
    grid = BinGrid.covering(1, 1 / np.sqrt(points))
    centre = grid.centres(grid.quantise(np.array([[value]])))[0, 0]
    assert abs(centre - value) <= grid.step / 2 * (1 + 1e-9)


@pytest.mark.parametrize("value", [1.2, -1.2, np.inf, -np.inf, np.nan])
def test_a_coordinate_outside_the_cube_is_an_error(value):
    with pytest.raises(InvalidInput, match="scale the data"):
        BinGrid.covering(2, 0.25).quantise(np.array([[0.0, value]]))


GRIDS = st.builds(BinGrid, st.integers(1, 80), st.just(0.1), st.integers(1, 500))


@given(GRIDS, st.data())
def test_bins_come_back_from_their_pieces(grid, data):
    rows = st.lists(st.integers(-grid.half, grid.half), min_size=grid.dimensions, max_size=grid.dimensions)
    levels = np.array(data.draw(st.lists(rows, min_size=1, max_size=5)), np.int32)
    pieces = grid.pieces(levels)
    assert pieces.shape == (len(levels), grid.piece_count)
    assert (pieces < 1 << PIECE_BITS).all()
    assert np.array_equal(grid.levels(pieces), levels)


@pytest.mark.parametrize(("dimensions", "points", "pieces"), [(10, 12_009, 2), (52, 15_120, 8), (784, 36_725, 131)])
def test_pieces_of_the_data_sets(dimensions, points, pieces):
    assert BinGrid.covering(dimensions, 1 / np.sqrt(points)).piece_count == pieces


def test_bins_at_both_ends_of_the_grid():
    grid = BinGrid(20, 0.1, 55)
    corners = np.array([[-55] * 20, [55] * 20], np.int32)
    assert grid.pieces(corners)[0].tolist() == [0] * grid.piece_count
    assert np.array_equal(grid.levels(grid.pieces(corners)), corners)


def test_pieces_of_no_bin_are_told():
    grid = BinGrid(10, 0.1, 55)  # 8 levels in a piece, 2 in the second
    assert grid.levels(np.array([[111**8, 0]], np.uint64)) is None
    assert grid.levels(np.array([[0, 111**2]], np.uint64)) is None
    assert grid.levels(np.array([[2**61 - 2, 0]], np.uint64)) is None
