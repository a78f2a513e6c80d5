"""What the law says of a federation's life is what the contracts do, whatever its members and strangers try."""

from dataclasses import astuple, replace

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.chain.records.phases import LONGEST_DRAW, NEVER, Deadlines, Ends
from tests.adversary.odd_transactions import DYNAMIC_FEE
from tests.adversary.odd_walk import Walk

WINDOWS = LedgerSettings(
    seed_delay=1,
    draw_window=10,
    order_delay=1,
    seal_window=20,
    share_window=30,
    commit_window=40,
    recover_window=50,
    coordinator_grace=5,
    quorum=3,
)
BOUNDED = replace(WINDOWS, vouch_window=7, affirm_window=9, stages=2)


def test_each_phase_begins_where_the_one_before_ended():
    assert astuple(Deadlines.of(100, WINDOWS, Ends())) == (
        *(100, 101, 111, 112, 132, 162, 202),
        *(202, 202, 202, 252, 252),
    )
    assert astuple(Deadlines.of(100, WINDOWS, Ends(draw=103)))[2:5] == (103, 104, 124)
    assert astuple(Deadlines.of(100, WINDOWS, Ends(103, 105, 105, 120)))[4:] == (105, 105, 120, 120, 120, 120, 170, 170)
    assert astuple(Deadlines.of(100, WINDOWS, Ends(), waits=True))[2:4] == (100 + LONGEST_DRAW, 101 + LONGEST_DRAW)
    assert Deadlines.of(100, WINDOWS, Ends(draw=103), waits=True).draw_end == 103


def test_with_bounds_vouchers_and_affirmations_come_before_the_recovery():
    assert astuple(Deadlines.of(100, BOUNDED, Ends()))[6:] == (202, 203, 210, 219, 269, 269)
    assert astuple(Deadlines.of(100, BOUNDED, Ends(commit=120, vouch=123)))[6:] == (120, 121, 123, 132, 182, 182)
    assert astuple(Deadlines.of(100, BOUNDED, Ends(commit=120, affirm=130)))[6:] == (120, 121, 128, 130, 180, 180)


def test_a_stage_has_a_window_of_its_own():
    assert Deadlines.of(100, BOUNDED, Ends(stage=300)).recover_end == 350


@pytest.mark.parametrize(("settings", "released", "end"), [(WINDOWS, 2, 252), (BOUNDED, 1, 269), (BOUNDED, 2, NEVER)])
def test_the_clock_does_not_end_a_round_with_bounds_whose_sum_may_be_open(settings, released, end):
    assert Deadlines.of(100, settings, Ends(), released=released).close_end == end


def walk(seed: int, steps: int) -> Walk:
    with embedded() as network:
        walked = Walk(network, seed, (DYNAMIC_FEE,))
        for _ in range(steps):
            walked.step()
        return walked


@pytest.mark.parametrize("seed", range(12))
def test_contract_and_law_agree_whatever_happens(seed):
    assert sum(walk(seed, 150).taken.values()) > 5  # of two a seed or an order is 65,535 blocks away
