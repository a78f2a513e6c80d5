"""The same facade over JSON-RPC: anvil as a child process, and nodes that are not there or not what they should be."""

import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ChainError, ConnectionFailed, ContractRevert, InsufficientFunds, WrongChain
from fedgrove.chain.face.founding import read_deployment, verify_code
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import anvil, connect
from fedgrove.chain.network.history import LedgerHistory, capture
from fedgrove.chain.network.practice_nodes import CONSTANT_BASE_FEE
from tests.chain.federations import found
from tests.chain.network.test_history import run_round


def test_a_round_and_its_history(anvil_network, tmp_path):
    federation = found(anvil_network)
    receipt = run_round(federation)
    verify_code(anvil_network, federation.deployment)
    history = capture(anvil_network, federation.deployment)
    history.save(tmp_path / "ledger.jsonl")
    history = LedgerHistory.load(tmp_path / "ledger.jsonl")
    history.verify()
    assert history.records() == federation.coordinator.records()
    assert history.transactions[receipt.transaction].gas_used == receipt.gas_used
    for transaction, facts in history.transactions.items():
        stated = anvil_network.request("eth_getTransactionReceipt", "0x" + transaction.hex())
        assert facts.fee == int(stated["gasUsed"], 16) * int(stated["effectiveGasPrice"], 16) > 0
    with pytest.raises(ContractRevert) as refusal:
        federation.clients[0].commit(1, b"x" * 32, b"y" * 32)
    assert refusal.value.name == "WrongPhase"


def test_another_process_reads_the_same(anvil_network):
    federation = found(anvil_network, clients=1)
    with connect(anvil_network.url, expected_chain_id=anvil_network.chain_id) as other:
        deployment = read_deployment(other, federation.deployment.ledger)
        assert deployment.settings == federation.deployment.settings
        reader = Ledger(other, deployment)
        assert reader.records() == federation.coordinator.records()
        poor = Keys.generate()
        with pytest.raises(InsufficientFunds):
            Ledger(other, deployment, poor.account).register(poor)


def test_no_ledger_at_the_address(anvil_network):
    with pytest.raises(ConnectionFailed, match="No fedgrove"):
        read_deployment(anvil_network, Keys.generate().address)


def test_other_code_is_told(anvil_network):
    federation = found(anvil_network, clients=0)
    address = federation.deployment.ledger
    code = bytearray(anvil_network.code(address))
    code[100] ^= 1
    anvil_network.request("anvil_setCode", address, "0x" + code.hex())
    with pytest.raises(WrongChain, match="TrainingLedger"):
        verify_code(anvil_network, federation.deployment)


def test_abandoned_blocks_are_read_again(anvil_network):
    federation = found(anvil_network, clients=1)
    before = federation.coordinator.records()
    snapshot = anvil_network.request("evm_snapshot")
    federation.clients[0].rotate_mailbox_key(federation.keys[0].with_new_mailbox())
    assert len(federation.coordinator.records()) == len(before) + 1
    anvil_network.request("evm_revert", snapshot)
    anvil_network.mine(3)
    assert federation.coordinator.records() == before


def test_the_state_survives_a_restart(tmp_path):
    state = tmp_path / "anvil.json"
    with anvil(state) as network:
        federation = found(network, clients=1)
        records = federation.coordinator.records()
        pid = network.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with anvil(state) as network:
        assert Ledger(network, federation.deployment).records() == records


def test_a_wrong_chain(anvil_network):
    with pytest.raises(WrongChain, match="not 1"):
        connect(anvil_network.url, expected_chain_id=1)


@pytest.mark.parametrize("url", ["127.0.0.1:1", "ftp://x", "http://", "http://[", "http://x:port"])
def test_a_url_that_is_none(url):
    with pytest.raises(ConnectionFailed, match="URL"):
        connect(url)


def test_nobody_there_and_no_secret_in_the_message():
    with pytest.raises(ConnectionFailed, match="does not answer") as fault:
        connect("http://user:hunter2@127.0.0.1:9/secret-key", timeout=2)
    assert "hunter2" not in str(fault.value)
    assert "secret-key" not in str(fault.value)


@pytest.mark.parametrize(
    "answer", [b"hello", b"{}", b"[]", b'{"jsonrpc":"2.0","id":0,"result":{}}', b'{"result":"0x"}', b"[" * 100_000]
)
def test_a_server_that_is_no_node(answer):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments):
            """Keep the test's output clean."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(ConnectionFailed):
            connect(f"http://127.0.0.1:{server.server_port}", timeout=2)
    finally:
        server.shutdown()
        server.server_close()


def test_the_base_fee_of_our_own_anvil_stays_as_it_is(anvil_network):
    address = Keys.generate().address
    anvil_network.fund(address, 1)
    before = anvil_network.base_fee()
    anvil_network.mine(20)
    assert before == anvil_network.base_fee() == CONSTANT_BASE_FEE


def test_anvil_is_missing(monkeypatch):
    monkeypatch.setenv("FEDGROVE_ANVIL", "/nonexistent/anvil")
    with pytest.raises(ConnectionFailed, match="npm install"):
        anvil()


def test_an_unlocked_account_of_another_node_funds(anvil_network):
    with connect(anvil_network.url) as other:
        other.practice_node = None
        address = Keys.generate().address
        other.fund(address, 0.5)
        assert other.balance(address) == 5 * 10**17


def test_blocks_at_an_interval_come_without_us(federation):
    with anvil(block_seconds=0.2) as network:
        assert not network.can_mine
        start = network.block_number()
        network.advance_to(start + 3, timeout=60)
        assert network.block_number() >= start + 3
        assert network.block_time(start + 3) >= network.block_time(start) > 1_600_000_000
        with pytest.raises(ChainError, match="at"):
            network.advance_to(start + 10**6, timeout=0.2)
    head = federation.network.block_number()
    assert federation.network.block_time(head) >= federation.network.block_time(head - 1) > 1_600_000_000


def test_a_call_that_a_new_block_overtakes_is_made_again():
    """Of 1,000 calls to a node that makes a hundred blocks a second, anvil itself refuses about fifteen."""
    identity = "0x" + "0" * 39 + "4"
    with anvil(block_seconds=0.01) as network:
        assert all(network.call(identity, b"as it was") == b"as it was" for _ in range(2000))


def test_anvil_ends_with_a_killed_parent():
    code = (
        "import time; from fedgrove.chain.face.networks import anvil; print(anvil().pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.kill()
    wait_until_gone(pid)


def test_anvil_outlives_the_thread_that_started_it():
    started = []
    thread = threading.Thread(target=lambda: started.append(anvil()))
    thread.start()
    thread.join()
    with started[0] as network:
        time.sleep(0.2)
        assert network.block_number() == 0


def wait_until_gone(pid):
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()
