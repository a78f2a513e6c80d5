"""The chain of the user's own ``npx hardhat node``, by blocks on demand and by time."""

from contextlib import contextmanager

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ConnectionFailed, ContractRevert, InsufficientFunds, NonceConflict
from fedgrove.chain.face.networks import connect
from fedgrove.chain.network import rpc_reading
from fedgrove.chain.network.history import capture
from fedgrove.chain.network.transactions import Content, Offer, Sender, signed
from tests.chain.federations import MODEL, found
from tests.hardhat_node import hardhat_node


@pytest.fixture(scope="module")
def url():
    with hardhat_node() as url:
        yield url


@pytest.fixture(scope="module")
def network(url):
    with connect(url) as network:
        yield network


@pytest.fixture(scope="module")
def federation(network):
    return found(network)


@contextmanager
def blocks_by_time(network, milliseconds=300):
    """The node makes a block in so much time, and none for a transaction."""
    network.request("evm_setAutomine", False)
    network.request("evm_setIntervalMining", milliseconds)
    try:
        yield
    finally:
        network.request("evm_setIntervalMining", 0)
        network.request("evm_setAutomine", True)


def test_it_is_known_for_practice_and_asked_to_mine(network):
    assert network.practice_node.name == "hardhat" and network.can_mine
    before = network.block_number()
    network.mine(120)
    assert network.block_number() == before + 120


def test_blocks_that_it_was_asked_for_prove_themselves(federation, network):
    """Those between the first and the last that ``hardhat_mine`` makes have no parent."""
    network.mine(20)
    history = capture(network, federation.deployment)
    history.verify()
    assert [type(record).__name__ for record in history.records()].count("Registered") == 4


def test_receipts_are_asked_for_one_by_one_once_it_has_refused_them_by_block(network, federation):
    [endpoint] = network._endpoints._all
    capture(network, federation.deployment)
    assert not endpoint.receipts_by_block


def test_receipts_one_by_one_are_not_read_without_bound(network, federation, monkeypatch):
    monkeypatch.setattr(rpc_reading, "MAX_ANSWER_BYTES", 1000)
    network._endpoints._all[0].receipts_by_block = False
    with pytest.raises(ConnectionFailed, match="MiB"):
        capture(network, federation.deployment)


def refused_twice(federation):
    """A second opening, which the contract refuses, and nothing that is lost by it."""
    with pytest.raises(ContractRevert) as refusal:
        federation.coordinator.open(MODEL)
    assert refusal.value.name == "RoundRunning"


def test_a_refusal_of_a_contract_is_its_own_word(network):
    federation = found(network)
    federation.open()
    refused_twice(federation)
    assert federation.coordinator.round(1) is not None


def test_a_refusal_of_a_contract_is_its_own_word_where_blocks_come_by_time(url):
    with connect(url) as network:
        federation = found(network)
        with blocks_by_time(network), connect(url) as network:
            assert not network.can_mine
            federation.network = network
            federation.open()
            refused_twice(federation)


def test_a_transaction_without_funds_is_named_so(network):
    keys = Keys.generate()
    with pytest.raises(InsufficientFunds):
        Sender(network, keys.account).transact(keys.address, b"", 21_000, value=1)


def test_a_nonce_that_was_used_is_named_so(network):
    keys = Keys.generate()
    network.fund(keys.address, 1)
    Sender(network, keys.account).transact(keys.address, b"", 21_000)
    again = signed(keys.account, network.chain_id, 0, Offer(10**10, 1), Content(keys.address, b"", 21_000, 0))
    with pytest.raises(NonceConflict):
        network.send(again)


def test_two_federations_on_one_node_do_not_disturb_each_other(network, federation):
    other = found(network)
    assert other.open() == 1 and federation.coordinator.current_round() == 0
    capture(network, other.deployment).verify()
    capture(network, federation.deployment).verify()
