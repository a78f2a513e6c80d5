"""Groups after a spoilt round: never so small that dropouts could leave somebody alone, and with somebody outside."""

import pytest

from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, Assumed, crowd, with_dropouts
from fedgrove.node.methods.training.regrouping import half, parts


def grouped(n: int, assumed: Assumed = DEFAULT_ASSUMED):
    return parts(n, crowd(n, assumed), assumed)


@pytest.mark.parametrize(
    ("n", "least", "sizes"),
    [
        (3, 3, [3]),
        (4, 3, [3]),
        (5, 3, [4]),
        (6, 3, [3, 3]),
        (7, 4, [5]),
        (8, 4, [4, 4]),
        (20, 8, [10, 10]),
        (100, 34, [50, 50]),
        (256, 47, [64] * 4),
    ],
)
def test_sizes_by_the_default_terms(n, least, sizes):
    assert crowd(n, DEFAULT_ASSUMED) == least
    assert [len(group) for group in grouped(n)] == sizes


@pytest.mark.parametrize("n", [*range(3, 120), 256, 1000])
def test_groups_are_of_neighbours_in_the_order_and_large_enough(n):
    groups, least = grouped(n), crowd(n, DEFAULT_ASSUMED)
    together = [position for group in groups for position in group]
    assert together == list(range(len(together))) and len(together) in (n, len(groups[0]))
    assert all(len(group) >= least for group in groups)
    if len(groups) > 2:
        assert all(len(group) >= with_dropouts(least, DEFAULT_ASSUMED) for group in groups)


@pytest.mark.parametrize("n", range(4, 120))
def test_one_spoiler_is_outside_of_some_group(n):
    """Else it could stop the federation: where there is one group, some clients sit out."""
    assert len(grouped(n)) > 1 or len(grouped(n)[0]) < n
    assert len(half(n, crowd(n, DEFAULT_ASSUMED), DEFAULT_ASSUMED)[0]) < n


@pytest.mark.parametrize("n", [8, 20, 100, 1000])
def test_half_is_half_or_what_survivors_need(n):
    least = crowd(n, DEFAULT_ASSUMED)
    (group,) = half(n, least, DEFAULT_ASSUMED)
    assert len(group) == max((n + 1) // 2, with_dropouts(least, DEFAULT_ASSUMED))
