"""While nobody has anything to do: who asks a practice node for blocks, and what is said where none come."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.errors import ConnectionFailed
from fedgrove.node.roles import passing_time
from fedgrove.node.roles.passing_time import PassingTime


class Chain:
    without_blocks = "start it"

    def __init__(self, can_mine):
        self.can_mine, self.mined = can_mine, 0

    def mine(self, blocks):
        self.mined += blocks


@pytest.fixture(autouse=True)
def now(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    kind = passing_time.Standstill
    monkeypatch.setattr(passing_time, "Standstill", lambda network: kind(network, lambda: clock.now))
    return clock


def test_a_practice_node_is_asked_for_a_block_after_a_second_without_one(now):
    chain = Chain(can_mine=True)
    passing = PassingTime(chain, asks=True)
    passing.note(3)
    now.now = 0.9
    passing.note(3)
    assert chain.mined == 0
    now.now = 1.1
    assert passing.note(3) == "" and chain.mined == 1
    passing.note(4)
    assert chain.mined == 1


@pytest.mark.parametrize(("can_mine", "asks"), [(True, False), (False, True)])
def test_others_and_other_chains_are_waited_for_and_reported(can_mine, asks, now):
    chain = Chain(can_mine)
    passing = PassingTime(chain, asks)
    passing.note(3)
    now.now = 61.0
    assert passing.note(3) == "the chain has made no block for 61 s (it is at block 3): start it"
    assert chain.mined == 0


def test_a_node_that_refuses_is_quoted_once_a_block(now, monkeypatch):
    def refuse(blocks):
        raise ConnectionFailed("away")

    chain = Chain(can_mine=True)
    monkeypatch.setattr(chain, "mine", refuse)
    passing = PassingTime(chain, asks=True)
    now.now = 2.0
    passing.note(3)
    now.now = 4.0
    assert passing.note(3) == "away"
    assert [passing.note(3) for _ in range(5)] == [""] * 5, "it may only claim to be for practice, and fill the log"
    passing.note(4)
    now.now = 6.0
    assert passing.note(4) == "away"
