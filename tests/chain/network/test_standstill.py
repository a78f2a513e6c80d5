"""A chain that makes no blocks is said to make none, with what to do."""

import time

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.networks import connect, embedded
from fedgrove.chain.network import transactions
from fedgrove.chain.network.standstill import STANDSTILL_SECONDS, Standstill, stopped
from fedgrove.chain.network.transactions import Sender
from tests.chain.nodes import anvil_or_skip


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_it_is_said_once_a_minute_after_the_last_block(clock):
    with embedded() as network:
        standstill = Standstill(network, clock)
        said = []
        for now, block in ((0, 5), (59, 5), (60, 5), (61, 5), (500, 5), (510, 6), (569, 6), (571, 6)):
            clock.now = now
            said.append(standstill.note(block))
    assert [bool(each) for each in said] == [False, False, True, False, False, False, False, True]
    assert said[2] == (
        "the chain has made no block for 60 s (it is at block 5): check that its node is synchronised, and that those "
        "who make its blocks run"
    )


def test_a_transaction_that_no_block_takes_is_given_up_with_what_to_do(monkeypatch):
    monkeypatch.setattr("fedgrove.chain.network.standstill.STANDSTILL_SECONDS", 0.5)
    monkeypatch.setattr(transactions, "LOOK_SECONDS", 0.1)
    with anvil_or_skip("--no-mining") as network:
        keys = Keys.generate()
        network.fund(keys.address, 1)
        assert not network.can_mine
        with pytest.raises(
            ChainError, match=r"made no block for .* anvil was told to make none by itself.*--block-time 1"
        ):
            Sender(network, keys.account).transact(keys.address, b"", 21_000)


def test_an_automining_node_is_said_to_need_somebody_who_asks():
    with anvil_or_skip() as network, connect(network.url) as other:
        assert "run `fedgrove coordinator`, which asks it for more, or start it with" in other.without_blocks
        assert stopped(other, time.time() + 1000) == ""  # it makes them on demand


def test_a_chain_has_stopped_by_the_time_of_its_latest_block():
    with anvil_or_skip("--no-mining") as network:
        made = network.block_time(0)
        assert stopped(network, made + STANDSTILL_SECONDS - 1) == ""
        assert "has made no block for 90 s (it is at block 0)" in stopped(network, made + 90)
