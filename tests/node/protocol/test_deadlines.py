"""What the law says of a federation's life is what the contracts do, whatever its members and strangers try."""

from dataclasses import astuple

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.chain.records.phases import LONGEST_DRAW, Deadlines, Ends
from tests.adversary.odd_transactions import DYNAMIC_FEE
from tests.adversary.odd_walk import Walk

WINDOWS = LedgerSettings(1, 10, 1, 20, 30, 40, 50, 5, 3)


def test_each_phase_begins_where_the_one_before_ended():
    assert astuple(Deadlines.of(100, WINDOWS, Ends())) == (100, 101, 111, 112, 132, 162, 202, 252)
    assert astuple(Deadlines.of(100, WINDOWS, Ends(draw=103)))[2:5] == (103, 104, 124)
    assert astuple(Deadlines.of(100, WINDOWS, Ends(103, 105, 105, 120)))[4:] == (105, 105, 120, 170)
    assert astuple(Deadlines.of(100, WINDOWS, Ends(), waits=True))[2:4] == (100 + LONGEST_DRAW, 101 + LONGEST_DRAW)
    assert Deadlines.of(100, WINDOWS, Ends(draw=103), waits=True).draw_end == 103


def walk(seed: int, steps: int) -> Walk:
    with embedded() as network:
        walked = Walk(network, seed, (DYNAMIC_FEE,))
        for _ in range(steps):
            walked.step()
        return walked


@pytest.mark.parametrize("seed", range(12))
def test_contract_and_law_agree_whatever_happens(seed):
    assert sum(walk(seed, 150).taken.values()) > 10  # of one of them a seed is never fixed, being 65,535 blocks away
