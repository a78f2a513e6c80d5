"""The embedded chain as a process behind JSON-RPC: the same facade, the same history, the same blocks after a kill."""

import json
import subprocess
import time
from dataclasses import replace
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from eth_account import Account

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.embedded.pool import PooledNetwork
from fedgrove.chain.embedded.rpc_answers import Answers
from fedgrove.chain.errors import (
    ConnectionFailed,
    ContractRevert,
    InsufficientFunds,
    NonceConflict,
    TransactionRefused,
    Underpriced,
)
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect, embedded, embedded_command, free_port
from fedgrove.chain.network.history import LedgerHistory, capture
from tests.chain.federations import SETTINGS, found
from tests.chain.network.test_history import run_round

PATIENCE = 60.0
WINDOWS = ("draw_window", "seal_window", "share_window", "commit_window", "recover_window")
PATIENT_BLOCKS = 240  # blocks come whether or not a busy machine has sent what belongs into them


class Served:
    """A chain's process, on a port that stays the same."""

    def __init__(self, state_file):
        self.port, self.state_file, self.process = free_port(), state_file, None
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen(embedded_command(self.port, self.state_file, 0.1))
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return connect(self.url, timeout=5)
            except ConnectionFailed:
                assert time.monotonic() < deadline and self.process.poll() is None
                time.sleep(0.1)

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def served(tmp_path):
    chain = Served(tmp_path / "blocks.jsonl")
    yield chain
    chain.end()


@pytest.fixture
def pooled():
    with PooledNetwork() as network:
        yield network


def signed(network, account, nonce=0, fee=10**10, **fields):
    plain = {"chainId": network.chain_id, "nonce": nonce, "to": account.address, "value": 0, "gas": 21_000}
    return bytes(account.sign_transaction(plain | fields | _fees(fee)).raw_transaction)


def _fees(fee):
    return {"type": 2, "maxFeePerGas": fee, "maxPriorityFeePerGas": 1}


@pytest.fixture
def rich(pooled):
    account = Account.create()
    pooled.fund(account.address, 1)
    pooled.mine()
    return account


def test_founded_in_one_process_used_in_another_and_the_same_after_a_kill(served, tmp_path):
    with embedded(served.state_file) as network:
        federation = found(network, clients=1)
        before = federation.coordinator.records()
    network, keys = served.start(), Keys.generate()
    network.fund(keys.address, 1)
    deadline = time.monotonic() + PATIENCE
    while not network.balance(keys.address):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    ledger = Ledger(network, federation.deployment, keys.account)
    receipt = ledger.register(keys)
    records, made = ledger.records(), network.block_hash(receipt.block)
    assert records[: len(before)] == before and len(records) == len(before) + 1
    history = capture(network, federation.deployment)
    history.save(tmp_path / "ledger.jsonl")
    LedgerHistory.load(tmp_path / "ledger.jsonl").verify()

    served.end()
    again = served.start()
    assert again.block_hash(receipt.block) == made and again.block_number() >= receipt.block
    assert Ledger(again, federation.deployment).records() == records


def test_a_round_over_the_wire_as_in_the_process(served):
    network = served.start()
    federation = found(network, settings=replace(SETTINGS, **dict.fromkeys(WINDOWS, PATIENT_BLOCKS)))
    receipt = run_round(federation)
    history = capture(network, federation.deployment)
    history.verify()
    assert history.transactions[receipt.transaction].gas_used == receipt.gas_used
    (paid,) = network.paid([receipt.transaction])
    assert paid.gas_used == receipt.gas_used and paid.fee > paid.gas_used
    with pytest.raises(ContractRevert) as refusal:
        federation.clients[0].commit(1, b"x" * 32, b"y" * 32)
    assert refusal.value.name == "WrongPhase"


def test_errors_cross_the_wire_with_their_meaning(served):
    network, poor = served.start(), Account.create()
    with pytest.raises(InsufficientFunds):
        network.send(signed(network, poor))
    with pytest.raises(TransactionRefused, match="invalid"):
        network.send(b"\x02garbage")
    first = network.request("eth_accounts")[0]
    network.request("eth_sendTransaction", {"from": first, "to": poor.address, "value": hex(10**18)})
    before = network.block_number()
    network.mine(3)
    assert network.block_number() >= before + 3 and network.balance(poor.address) == 10**18


def test_transactions_wait_for_a_block_and_for_the_nonces_before_theirs(pooled, rich):
    second, first = (pooled.send(signed(pooled, rich, nonce)) for nonce in (1, 0))
    assert pooled.mined(first) is None and pooled.knows(first) and not pooled.knows(b"\0" * 32)
    pooled.mine()
    assert pooled.mined(first).block == pooled.mined(second).block == pooled.block_number()
    with pytest.raises(NonceConflict):
        pooled.send(signed(pooled, rich))


def test_one_whose_nonce_is_missing_waits_on(pooled, rich):
    early = pooled.send(signed(pooled, rich, 1))
    pooled.mine(2)
    assert pooled.mined(early) is None and pooled.knows(early)
    pooled.send(signed(pooled, rich, 0))
    pooled.mine()
    assert pooled.mined(early) is not None


def test_a_higher_fee_replaces_and_a_lower_one_does_not(pooled, rich):
    cheap = pooled.send(signed(pooled, rich))
    with pytest.raises(Underpriced):
        pooled.send(signed(pooled, rich, fee=10**10 + 1))
    dear = pooled.send(signed(pooled, rich, fee=2 * 10**10))
    pooled.mine()
    assert pooled.mined(dear) is not None and pooled.mined(cheap) is None and not pooled.knows(cheap)


@pytest.mark.parametrize(
    "raw", [b"", b"\x01\xc0", b"\x03\xc0", b"\x04\xc0", b"\xc0", b"\x02" + b"\xff" * 99], ids=lambda raw: raw[:2].hex()
)
def test_bytes_that_are_no_transaction_for_it(pooled, raw):
    with pytest.raises(TransactionRefused):
        pooled.send(raw)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (None, -32700),
        (3, -32700),
        ({"method": "eth_sign"}, -32601),
        ({"method": ["eth_chainId"]}, -32601),
        ({"method": "eth_chainId", "params": {}}, -32601),
        ({"method": "eth_chainId", "params": [1]}, -32602),
        ({"method": "eth_getBlockByNumber", "params": ["x"]}, -32602),
        ({"method": "eth_getCode", "params": ["0x12"]}, -32602),
        ({"method": "eth_call", "params": [{}]}, -32602),
        ({"method": "eth_getLogs", "params": [{"fromBlock": "0x0", "toBlock": "0xffffff"}]}, -32602),
        ({"method": "anvil_mine", "params": ["0xffffff"]}, -32602),
        ({"method": "eth_sendTransaction", "params": [{"from": "0x" + "11" * 20}]}, -32602),
    ],
)
def test_bad_requests_get_json_rpcs_own_errors(pooled, request_, code):
    assert Answers(pooled).answer(request_)["error"]["code"] == code


def test_no_block_and_no_transaction_are_null(pooled):
    for method, name in (("eth_getBlockByNumber", "0xff"), ("eth_getTransactionByHash", "0x" + "00" * 32)):
        assert Answers(pooled).answer({"method": method, "params": [name], "id": 1})["result"] is None


def test_web_pages_do_not_drive_it_and_garbage_is_answered(served):
    served.start()
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(served.url, b"{}", {"Origin": "http://evil.example"}), timeout=10)
    assert refused.value.code == 403
    with pytest.raises(HTTPError) as too_much:
        urlopen(Request(served.url, b"{}", {"Content-Length": str(1 << 40)}), timeout=10)
    assert too_much.value.code == 413
    answer = json.load(urlopen(Request(served.url, b"[" * 100_000), timeout=10))
    assert answer["error"]["code"] == -32700


def test_it_ends_when_it_is_told(served):
    served.start()
    served.process.terminate()
    assert served.process.wait(PATIENCE) == 0
