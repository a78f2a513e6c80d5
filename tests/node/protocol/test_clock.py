"""The phase of a round, by its records and the block; ``test_deadlines`` compares it with the contract's."""

import pytest

from fedgrove.chain.records import Closed, Failed, Phase, Skipped, Voided
from fedgrove.node.protocol.clock import phase_of
from tests.node.roles.fakes import DEADLINES, entry_with

SOMETHING = object()
LATE = 1000


def phase(block, **parts):
    return phase_of(entry_with(**parts), DEADLINES, block)


@pytest.mark.parametrize("parts", [{}, {"sealed": SOMETHING}])
@pytest.mark.parametrize("block", [0, 45, LATE])
@pytest.mark.parametrize(("end", "told"), [(Closed, Phase.CLOSED), (Skipped, Phase.SKIPPED), (Failed, Phase.FAILED)])
def test_a_round_that_ended_stays_so_whatever_the_block(block, parts, end, told):
    assert phase(block, end=object.__new__(end), **parts) is told


@pytest.mark.parametrize("end", [Closed, Voided])
def test_a_void_round_is_void_whatever_it_ended_with(end):
    assert phase(45, end=object.__new__(end), voided=SOMETHING) is Phase.VOIDED


@pytest.mark.parametrize(
    ("block", "due"),
    [
        (0, Phase.SEEDING),
        (10, Phase.SEEDING),
        (11, Phase.DRAW),
        (20, Phase.DRAW),
        (21, Phase.SEAL),
        (30, Phase.SEAL),
        (31, Phase.OVERDUE),
        (LATE, Phase.OVERDUE),
    ],
)
def test_an_open_round_follows_the_clock_until_it_is_sealed(block, due):
    assert phase(block) is due


@pytest.mark.parametrize(("block", "due"), [(10, Phase.SEEDING), (11, Phase.SEAL), (20, Phase.SEAL)])
def test_the_draws_are_over_once_that_is_recorded(block, due):
    assert phase(block, draw_end=SOMETHING) is due


@pytest.mark.parametrize(
    ("block", "due"),
    [
        (22, Phase.SHARE),
        (40, Phase.SHARE),
        (41, Phase.COMMIT),
        (50, Phase.COMMIT),
        (51, Phase.RECOVER),
        (60, Phase.RECOVER),
        (61, Phase.OVERDUE),
    ],
)
def test_a_sealed_round_follows_the_clock_until_it_is_closed(block, due):
    assert phase(block, sealed=SOMETHING) is due
