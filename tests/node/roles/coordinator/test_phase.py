"""In which phase a round is for a coordinator."""

import pytest
from fedgrove.node.roles.coordinator.phase import CoordinatorPhase, phase_of

from tests.node.roles.fakes import DEADLINES, entry_with

SOMETHING = object()
LATE = 1000


def phase(block, **parts):
    return phase_of(entry_with(**parts), DEADLINES, block)


@pytest.mark.parametrize("parts", [{}, {"sealed": SOMETHING}, {"sealed": SOMETHING, "recovered": SOMETHING}])
@pytest.mark.parametrize("block", [0, 45, LATE])
def test_a_round_that_ended_is_reported_whatever_came_of_it(block, parts):
    assert phase(block, end=SOMETHING, **parts) is CoordinatorPhase.REPORT


@pytest.mark.parametrize(
    ("block", "due"),
    [
        (0, CoordinatorPhase.SEAL),
        (29, CoordinatorPhase.SEAL),
        (30, CoordinatorPhase.OVERDUE),
        (LATE, CoordinatorPhase.OVERDUE),
    ],
)
def test_an_open_round_is_to_be_sealed_until_that_is_overdue(block, due):
    assert phase(block) is due


@pytest.mark.parametrize(
    ("block", "due"),
    [
        (22, CoordinatorPhase.SHARE),
        (39, CoordinatorPhase.SHARE),
        (40, CoordinatorPhase.COMMIT),
        (49, CoordinatorPhase.COMMIT),
        (50, CoordinatorPhase.RECOVER),
        (59, CoordinatorPhase.RECOVER),
        (60, CoordinatorPhase.OVERDUE),
    ],
)
def test_a_sealed_round_follows_the_clock_until_it_is_recovered(block, due):
    assert phase(block, sealed=SOMETHING) is due


@pytest.mark.parametrize(
    ("block", "due"), [(50, CoordinatorPhase.CLOSE), (69, CoordinatorPhase.CLOSE), (70, CoordinatorPhase.OVERDUE)]
)
def test_a_recovered_round_is_to_be_closed_until_that_is_overdue(block, due):
    assert phase(block, sealed=SOMETHING, recovered=SOMETHING) is due
