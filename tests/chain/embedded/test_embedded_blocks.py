"""Blocks of the embedded chain, which it writes without checking them: py-evm computes them again and agrees."""

import itertools
import time
from types import SimpleNamespace

import pytest
from eth.db.atomic import AtomicDB
from eth.db.backends.memory import MemoryDB

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.embedded.evm import EmbeddedNetwork
from fedgrove.chain.embedded.pool import PooledNetwork
from fedgrove.chain.network.practice_nodes import CONSTANT_BASE_FEE
from fedgrove.chain.network.transactions import Content, Offer, signed

# Creations that keep the block's random value and its time; one of them takes it back.
KEPT, REVERTED = bytes.fromhex("4460005542600155"), bytes.fromhex("4460005560006000fd")


def create(network: EmbeddedNetwork, account: Account, nonce: int, code: bytes) -> None:
    offer = Offer(10 * network.base_fee(), 1)
    network.send(signed(account, network.chain_id, nonce, offer, Content(None, code, 200_000, 0)))


@pytest.fixture(autouse=True)
def seconds_between_blocks(monkeypatch):
    """py-evm takes no two blocks of one second, which this chain makes."""
    now = itertools.count(int(time.time()) + 1)
    monkeypatch.setattr("fedgrove.chain.embedded.evm.time", SimpleNamespace(time=lambda: next(now)))


def genesis_of(network: EmbeddedNetwork) -> AtomicDB:
    return AtomicDB(MemoryDB(dict(network._chain.chaindb.db.wrapped_db.kv_store)))


def check(network: EmbeddedNetwork, genesis: AtomicDB, transactions: list[int]) -> None:
    """A chain of its own takes every block, whose roots, bloom and gas it compares with what it computes."""
    other = type(network._chain)(genesis)
    blocks = [network.block(number) for number in range(1, network.block_number() + 1)]
    assert [len(block.transactions) for block in blocks] == transactions
    for block in blocks:
        assert other.import_block(block).imported_block.hash == block.hash


def test_a_block_of_each_transaction():
    account = Keys.generate().account
    with EmbeddedNetwork() as network:
        genesis = genesis_of(network)
        network.fund(account.address, 2)
        network.mine(2)
        for nonce, code in enumerate((REVERTED, KEPT, KEPT)):
            create(network, account, nonce, code)
        check(network, genesis, [1, 0, 0, 1, 1, 1])


def test_a_block_of_those_whose_turn_has_come():
    account = Keys.generate().account
    network = PooledNetwork()
    genesis = genesis_of(network)
    network.fund(account.address, 2)
    network.mine()
    for nonce in (3, 1, 0):  # 2 is missing
        create(network, account, nonce, KEPT)
    network.mine(2)
    create(network, account, 2, REVERTED)
    network.mine()
    check(network, genesis, [1, 2, 0, 2])


def test_no_block_lies_in_the_future_however_fast_they_are_made(monkeypatch):
    now = 2_000_000_000
    monkeypatch.setattr("fedgrove.chain.embedded.evm.time", SimpleNamespace(time=lambda: now))
    with EmbeddedNetwork() as network:
        network.mine(50)
        assert {network.block_time(number) for number in range(1, 51)} == {now}
        now -= 100  # a clock that is set back
        network.mine(1)
        assert network.block_time(51) == now + 100


def test_the_base_fee_stays_as_it_is():
    with EmbeddedNetwork() as network:
        account = Keys.generate().account
        network.fund(account.address, 2)
        fees = {network.base_fee()}
        for nonce in range(3):
            create(network, account, nonce, KEPT)
            network.mine(10)
            fees.add(network.base_fee())
    assert fees == {CONSTANT_BASE_FEE}
