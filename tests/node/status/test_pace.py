"""When a block is to be expected."""

import pytest

from fedgrove.chain.face.networks import anvil, embedded
from fedgrove.node.status.pace import Pace, pace


def test_the_pace_is_that_of_the_chain():
    with anvil(block_seconds=1) as network:
        network.advance_to(4)
        measured = pace(network)
    assert measured.block >= 4 and measured.seconds == pytest.approx(1, abs=0.5)  # block times are whole seconds


@pytest.mark.parametrize("chain", [embedded, anvil])
def test_a_chain_that_makes_blocks_on_demand_has_none(chain):
    with chain() as network:
        network.mine(5)
        assert pace(network) is None


def test_a_chain_of_one_block_has_none():
    with anvil(block_seconds=60) as network:
        assert pace(network) is None


def test_a_later_block_is_so_many_blocks_away():
    assert Pace(100, 1000, 2.5).expected(110, now=1001.0) == 1025.0


def test_a_block_that_is_due_is_expected_at_once():
    assert Pace(100, 1000, 2.0).expected(101, now=1005.0) == 1005.0


def test_nothing_is_expected_of_a_chain_that_stopped():
    assert Pace(100, 1000, 2.0).expected(110, now=1031.0) is None
    assert Pace(100, 1000, 12.0).expected(110, now=1031.0) == 1120.0
