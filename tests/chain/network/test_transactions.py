"""A sender against real nodes: stuck and replaced transactions, fees, and nonces after a crash on either side."""

import json
import os
import signal
import threading
import time
from functools import partial
from itertools import pairwise

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ChainError, FeeAboveCap
from fedgrove.chain.face.networks import anvil, embedded
from fedgrove.chain.network.access import GWEI
from fedgrove.chain.network.fees import FeeHistory
from fedgrove.chain.network.transactions import Sender, sender_of
from tests.chain.federations import found

FAR = "0x" + "11" * 20
FULL, ROOMY = 20_000, 30_000_000


@pytest.fixture(scope="module")
def slow_chain():
    """Blocks only when the test says so."""
    with anvil(block_seconds=100_000) as network:
        network.resend_seconds = 0.2
        yield network


@pytest.fixture
def account(slow_chain):
    keys = Keys.generate()
    slow_chain.fund(keys.address, 1000)
    yield keys.account
    slow_chain.max_fee = 500 * GWEI
    set_gas_limit(slow_chain, ROOMY)
    set_base_fee(slow_chain, GWEI)


def set_gas_limit(network, limit):
    network.request("evm_setBlockGasLimit", hex(limit))


def mine_full_blocks(network, condition):
    """Make blocks that have no room for a transaction until the condition holds."""

    def mine():
        set_gas_limit(network, FULL)
        network.mine()
        set_gas_limit(network, ROOMY)
        return condition()

    until(mine)


def set_base_fee(network, fee):
    network.request("anvil_setNextBlockBaseFeePerGas", hex(fee))
    network.mine()


def pay(sender, amount=1, timeout=60.0):
    return sender.transact(FAR, b"", 21_000, timeout, amount)


def pending(network, account):
    """Transactions of an account in the pool by nonce."""
    pool = network.request("txpool_content")["pending"]
    found = {address.lower(): of for address, of in pool.items()}.get(account.address.lower(), {})
    return {int(nonce): transaction for nonce, transaction in found.items()}


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def saved_block(state):
    """The block at which anvil last saved its state, None while it does."""
    try:
        return json.loads(state.read_bytes())["best_block_number"]
    except (OSError, ValueError):
        return None


class Background:
    """A call in a thread; ``result`` joins it and returns or raises what it did."""

    def __init__(self, call):
        self._call = call
        self._outcome = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            self._outcome.append(self._call())
        except Exception as fault:
            self._outcome.append(fault)

    @property
    def running(self):
        return self._thread.is_alive()

    def result(self):
        self._thread.join(90)
        assert not self._thread.is_alive()
        if isinstance(self._outcome[0], Exception):
            raise self._outcome[0]
        return self._outcome[0]


def test_a_stuck_transaction_is_replaced_with_higher_fees(slow_chain, account):
    sending = Background(lambda: pay(Sender(slow_chain, account)))
    until(lambda: pending(slow_chain, account))
    versions = [pending(slow_chain, account)[0]]
    for _ in range(2):
        mine_full_blocks(slow_chain, lambda: pending(slow_chain, account)[0]["hash"] != versions[-1]["hash"])
        versions.append(pending(slow_chain, account)[0])
    for before, after in pairwise(versions):
        for fee in ("maxFeePerGas", "maxPriorityFeePerGas"):
            assert int(after[fee], 16) * 8 >= int(before[fee], 16) * 9
    slow_chain.mine()
    mined = slow_chain.request("eth_getTransactionByHash", "0x" + sending.result().transaction.hex())
    assert (mined["from"], mined["nonce"]) == (versions[-1]["from"], versions[-1]["nonce"])
    # It may have been replaced once more, after the pool was last looked at.
    assert int(mined["maxFeePerGas"], 16) >= int(versions[-1]["maxFeePerGas"], 16)


def test_a_transaction_that_the_pool_dropped_for_its_fee_is_replaced(slow_chain, account):
    sending = Background(lambda: pay(Sender(slow_chain, account)))
    until(lambda: pending(slow_chain, account))
    set_base_fee(slow_chain, 50 * GWEI)
    assert not pending(slow_chain, account)
    until(lambda: slow_chain.mine() or pending(slow_chain, account) or not sending.running)
    slow_chain.mine()
    assert sending.result().succeeded


def test_no_fee_is_raised_while_the_chain_makes_no_blocks(slow_chain, account):
    sending = Background(lambda: pay(Sender(slow_chain, account), timeout=3))
    until(lambda: pending(slow_chain, account))
    first = pending(slow_chain, account)[0]["hash"]
    with pytest.raises(ChainError, match=r"no block after 3 s.*check"):
        sending.result()
    assert pending(slow_chain, account)[0]["hash"] == first
    slow_chain.mine()


def test_an_earlier_version_counts_when_it_is_the_one_that_is_mined(slow_chain, account, monkeypatch):
    monkeypatch.setattr("fedgrove.chain.network.transactions.LOOK_SECONDS", 3.0)
    sending = Background(lambda: pay(Sender(slow_chain, account)))
    until(lambda: pending(slow_chain, account))
    first = pending(slow_chain, account)[0]["hash"]
    raw = slow_chain.request("eth_getRawTransactionByHash", first)
    mine_full_blocks(slow_chain, lambda: pending(slow_chain, account)[0]["hash"] != first)
    slow_chain.request("anvil_dropAllTransactions")
    slow_chain.request("eth_sendRawTransaction", raw)
    slow_chain.mine()
    assert "0x" + sending.result().transaction.hex() == first


def test_at_the_cap_it_waits_until_the_timeout(slow_chain, account):
    slow_chain.max_fee = 4 * GWEI
    set_base_fee(slow_chain, GWEI)  # near enough to the cap that few replacements reach it
    sending = Background(lambda: pay(Sender(slow_chain, account), timeout=10))
    until(lambda: pending(slow_chain, account))
    mine_full_blocks(slow_chain, lambda: not sending.running)
    with pytest.raises(ChainError, match="max_fee_gwei"):
        sending.result()
    assert 3.5 * GWEI < int(pending(slow_chain, account)[0]["maxFeePerGas"], 16) <= 4 * GWEI


def test_above_the_cap_nothing_is_sent(slow_chain, account):
    slow_chain.max_fee = 4 * GWEI
    set_base_fee(slow_chain, 5 * GWEI)
    with pytest.raises(FeeAboveCap, match=r"raise max_fee_gwei") as fault:
        pay(Sender(slow_chain, account))
    assert "4 gwei" in str(fault.value)
    assert not pending(slow_chain, account)


def test_what_a_former_life_left_in_the_pool_is_replaced(slow_chain, account):
    former = Sender(slow_chain, account)
    for amount in (1, 2):
        with pytest.raises(ChainError):
            pay(former, amount, timeout=0.1)
    assert list(pending(slow_chain, account)) == [0, 1]
    sending = Background(lambda: pay(Sender(slow_chain, account), 3))
    until(lambda: int(pending(slow_chain, account)[0]["value"], 16) == 3)
    slow_chain.mine()
    assert slow_chain.mined(sending.result().transaction).succeeded


def test_a_former_life_that_offered_more_is_outbid_or_told(slow_chain, account):
    rich = Sender(slow_chain, account)
    rich._fees = (slow_chain.block_number(), FeeHistory(99 * GWEI))
    with pytest.raises(ChainError):
        pay(rich, timeout=0.1)
    slow_chain.max_fee = 100 * GWEI
    with pytest.raises(FeeAboveCap, match="pending ones"):
        pay(Sender(slow_chain, account), 2)
    slow_chain.max_fee = 500 * GWEI
    sending = Background(lambda: pay(Sender(slow_chain, account), 3))
    until(lambda: int(pending(slow_chain, account)[0]["value"], 16) == 3)
    slow_chain.mine()
    sending.result()


def test_the_same_call_after_a_timeout_waits_for_what_was_sent(slow_chain, account):
    sender = Sender(slow_chain, account)
    with pytest.raises(ChainError):
        pay(sender, timeout=0.1)
    sent = pending(slow_chain, account)[0]["hash"]
    again = Background(lambda: pay(sender))
    time.sleep(0.3)
    assert list(pending(slow_chain, account)) == [0]
    slow_chain.mine()
    assert "0x" + again.result().transaction.hex() == sent
    other = Background(lambda: pay(sender))
    until(lambda: 1 in pending(slow_chain, account))
    slow_chain.mine()
    assert other.result().transaction.hex() != sent[2:]


def test_threads_share_an_account(slow_chain, account):
    sender = Sender(slow_chain, account)
    sending = [Background(lambda: pay(sender)) for _ in range(5)]
    until(lambda: len(pending(slow_chain, account)) == 5)
    slow_chain.mine()
    assert len({one.result().transaction for one in sending}) == 5


def test_a_nonce_that_somebody_else_used_is_told(slow_chain, account):
    sending = Background(lambda: pay(Sender(slow_chain, account)))
    until(lambda: pending(slow_chain, account))
    slow_chain.request("anvil_dropTransaction", pending(slow_chain, account)[0]["hash"])
    slow_chain.resend_seconds, before = 1000, slow_chain.resend_seconds
    slow_chain.request("anvil_setNonce", account.address, "0x1")
    try:
        with pytest.raises(ChainError, match="another transaction used it"):
            sending.result()
    finally:
        slow_chain.resend_seconds = before


def test_a_transaction_that_the_pool_lost_is_offered_again(slow_chain, account):
    sending = Background(lambda: pay(Sender(slow_chain, account)))
    until(lambda: pending(slow_chain, account))
    slow_chain.request("anvil_dropAllTransactions")
    until(lambda: pending(slow_chain, account))
    slow_chain.mine()
    assert sending.result().succeeded


def test_after_blocks_were_lost_no_gap_is_left(slow_chain, account):
    sender = Sender(slow_chain, account)
    snapshot = slow_chain.request("evm_snapshot")
    for _ in range(2):
        sending = Background(lambda: pay(sender))
        until(lambda: pending(slow_chain, account))
        slow_chain.mine()
        sending.result()
    assert sender.next_nonce() == 2
    slow_chain.request("evm_revert", snapshot)
    slow_chain.request("anvil_dropAllTransactions")
    assert sender.next_nonce() == 0
    sending = Background(lambda: pay(sender))
    until(lambda: pending(slow_chain, account))
    slow_chain.mine()
    assert sending.result().succeeded


def test_waiting_ends_when_an_earlier_nonce_is_lost(slow_chain, account):
    sender = Sender(slow_chain, account)
    snapshot = slow_chain.request("evm_snapshot")
    first = Background(lambda: pay(sender, 1))
    until(lambda: pending(slow_chain, account))
    slow_chain.mine()
    first.result()
    second = Background(lambda: pay(sender, 2))
    until(lambda: 1 in pending(slow_chain, account))
    slow_chain.request("evm_revert", snapshot)
    slow_chain.request("anvil_dropAllTransactions")
    with pytest.raises(ChainError, match="abandoned"):
        second.result()
    again = Background(lambda: pay(sender, 2))
    until(lambda: 0 in pending(slow_chain, account))
    slow_chain.mine()
    assert again.result().succeeded


def test_two_processes_of_one_account_get_through(slow_chain, account):
    stop = threading.Event()

    def mine():
        while not stop.is_set():
            slow_chain.mine()
            time.sleep(0.3)

    miner = Background(mine)

    def insist(amount):
        sender = Sender(slow_chain, account)
        for _ in range(4):
            for _ in range(20):
                try:
                    pay(sender, amount)
                    break
                except ChainError:
                    continue
            else:
                raise AssertionError("never mined")

    try:
        for one in [Background(partial(insist, amount)) for amount in (1, 2)]:
            one.result()
    finally:
        stop.set()
        miner.result()
    assert slow_chain.nonce(account.address) >= 8


def test_a_node_killed_and_restarted_from_its_state(tmp_path):
    state, keys = tmp_path / "anvil.json", Keys.generate()
    with anvil(state) as network:
        network.fund(keys.address, 10)
        sender = sender_of(network, keys.account)
        pay(sender)
        until(lambda: saved_block(state) == 1)
        # What comes after the last saving is lost when the node is killed.
        pay(sender)
        pay(sender)
        os.kill(network.pid, signal.SIGKILL)
        port = int(network.url.rsplit(":", 1)[1])
    with anvil(state, port) as restarted:
        count = restarted.nonce(keys.address)
        assert pay(sender).succeeded
        assert restarted.nonce(keys.address) == count + 1


def test_the_embedded_chain_knows_the_same_errors():
    with embedded() as network:
        federation = found(network, clients=0)
        network.max_fee = 1
        with pytest.raises(FeeAboveCap):
            pay(sender_of(network, federation.founder.account))
