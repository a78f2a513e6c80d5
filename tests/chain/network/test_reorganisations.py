"""Blocks that a chain abandons, nodes that are a little behind, and a node that was killed: what we make of them."""

import json
import os
import signal
import subprocess
import time
from contextlib import suppress

import pytest

from fedgrove.chain.crypto import tree
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import BadHistory, ChainError, ConnectionFailed, ContractRevert
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import anvil, anvil_command, connect, free_port, restore_block_hashes
from fedgrove.chain.network import anvil_state, endpoints
from fedgrove.chain.network.transactions import sender_of
from fedgrove.chain.records import Sealed, SeedFixed
from tests.chain.face.ledger_calls import finish
from tests.chain.federations import found
from tests.chain.nodes import proxy, until


@pytest.fixture(scope="module")
def archive():
    """A node that keeps all states, as anvil needs to abandon blocks by itself; a block for each transaction."""
    port = free_port()
    command = anvil_command(port)
    pruning = command.index("--prune-history")
    del command[pruning : pruning + 2]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield wait_for(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()


def wait_for(url):
    for _ in range(600):
        try:
            network = connect(url, timeout=5)
            network.poll_seconds = 0.01
            network.url = url
            return network
        except ConnectionFailed:
            time.sleep(0.05)
    raise AssertionError("the node does not start")


def reader(federation, network):
    return Ledger(network, federation.deployment)


def rotate(federation, client=0):
    return federation.clients[client].rotate_mailbox_key(federation.keys[client].with_new_mailbox())


def reorganise(network, depth):
    """Abandon the last blocks and make as many empty ones, and one more, in their stead."""
    network.request("anvil_reorg", depth, [])
    network.mine()


def digest(records):
    return [(type(record).__name__, record.at) for record in records]


@pytest.mark.parametrize("proofs", ["headers", "endpoints"])
def test_abandoned_records_are_dropped_and_told_again(archive, proofs):
    federation = found(archive, clients=2)
    ledger = reader(federation, connect(archive.url, proofs=proofs))
    before = ledger.records()
    receipt = rotate(federation)
    assert len(ledger.records()) == len(before) + 1
    reorganise(archive, 2)
    assert ledger.records() == before
    assert archive.mined(receipt.transaction) is None
    assert not archive.knows(receipt.transaction)
    again = rotate(federation)
    records = ledger.records()
    assert records[:-1] == before
    assert records[-1].at.transaction == again.transaction
    assert records == reader(federation, connect(archive.url)).records()
    assert ledger.block_hash(records[0].at.block) == archive.block_hash(records[0].at.block)


@pytest.mark.parametrize("depth", [5, 40])
@pytest.mark.parametrize("proofs", ["headers", "endpoints"])
def test_a_deep_reorganisation_below_every_reading(archive, proofs, depth):
    federation = found(archive, clients=1)
    ledger = reader(federation, connect(archive.url, proofs=proofs))
    kept = ledger.records()
    head = archive.block_number()
    for _ in range(depth):
        rotate(federation)
        ledger.records()
    reorganise(archive, archive.block_number() - head)
    assert ledger.records() == kept
    rotate(federation)
    assert digest(ledger.records()) == digest(reader(federation, connect(archive.url)).records())


def test_a_record_that_moved_to_another_block_is_told_once(archive):
    federation = found(archive, clients=1)
    ledger = reader(federation, archive)
    receipt = rotate(federation)
    first = ledger.records()[-1].at
    raw = archive.request("eth_getRawTransactionByHash", "0x" + receipt.transaction.hex())
    reorganise(archive, 2)
    archive.request("eth_sendRawTransaction", raw)
    archive.mine()
    moved = [record.at for record in ledger.records() if record.at.transaction == receipt.transaction]
    assert len(moved) == 1 and moved[0].block > first.block
    assert archive.mined(receipt.transaction).block == moved[0].block


MIDST = [
    ("headers", "eth_getBlockByNumber"),
    ("headers", "eth_getBlockReceipts"),
    ("endpoints", "eth_getBlockByNumber"),
    ("endpoints", "eth_getLogs"),
    ("endpoints", "eth_getTransactionByHash"),
]


def methods_of(payload):
    return [call["method"] for call in (payload if isinstance(payload, list) else [payload])]


@pytest.mark.parametrize(("proofs", "method"), MIDST)
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_blocks_abandoned_in_the_midst_of_a_reading(archive, proofs, method, nth):
    """The reorganisation takes place just before the nth exchange that holds such a request."""
    federation = found(archive, clients=1)
    with proxy(archive.url) as node, connect(node.url, proofs=proofs) as network:
        ledger = reader(federation, network)
        ledger.records()
        rotate(federation)
        ledger.records()
        rotate(federation)
        seen, handed_on = [], node.answer

        def answer(payload):
            found = method in methods_of(payload)
            seen.extend([method] * found)
            if found and len(seen) == nth:
                reorganise(archive, 2)
            return handed_on(payload)

        node.answer = answer
        for _ in range(3):
            # Several endpoints' word on records whose transactions are gone by now is no word.
            with suppress(*[ConnectionFailed] * (proofs == "endpoints")):
                ledger.records()
        node.answer = handed_on
        assert digest(ledger.records()) == digest(reader(federation, connect(archive.url)).records())


def test_a_chain_that_never_settles_is_told(archive):
    federation = found(archive, clients=1)
    with proxy(archive.url) as node, connect(node.url) as network:
        ledger = reader(federation, network)
        before = ledger.records()
        handed_on = node.answer

        def answer(payload):
            if isinstance(payload, list):
                reorganise(archive, 2)
                rotate(federation)
                rotate(federation)
            return handed_on(payload)

        rotate(federation)
        rotate(federation)
        node.answer = answer
        with pytest.raises(BadHistory, match="the hash that the endpoints state"):
            ledger.records()
        assert ledger.block_hash(before[-1].at.block) == archive.block_hash(before[-1].at.block)
        node.answer = handed_on
        assert ledger.records() == federation.coordinator.records()


@pytest.mark.parametrize("proofs", ["headers", "endpoints"])
def test_a_node_a_little_behind_is_no_reorganisation(archive, monkeypatch, proofs):
    monkeypatch.setattr(endpoints, "SURVEY_SECONDS", 1000.0)
    monkeypatch.setattr(endpoints, "COOL_DOWN_SECONDS", 0.0)
    federation = found(archive, clients=2)
    archive.mine(5)
    with (
        proxy(archive.url) as ahead,
        proxy(archive.url, lag=2) as behind,
        connect([ahead.url, behind.url], quorum=1, proofs=proofs) as network,
    ):
        ledger = reader(federation, network)
        ledger.records()
        rotate(federation, 0)
        rotate(federation, 1)
        records = ledger.records()
        reading = {"headers": "eth_getBlockReceipts", "endpoints": "eth_getLogs"}[proofs]
        read = ahead.methods.count(reading) + behind.methods.count(reading)
        for bad in (ahead, behind) * 3:
            bad.mode = "drop"
            assert ledger.records() == records
            bad.mode = "ok"
        assert network.block_number() in (archive.block_number(), archive.block_number() - 2)
        assert ahead.methods.count(reading) + behind.methods.count(reading) == read
        ahead.mode = "drop"
        rotate(federation, 0)
        archive.mine(2)
        assert len(ledger.records()) == len(records) + 1


@pytest.mark.parametrize("proofs", ["headers", "endpoints"])
def test_a_reorganisation_is_seen_by_a_node_a_little_behind(archive, monkeypatch, proofs):
    monkeypatch.setattr(endpoints, "SURVEY_SECONDS", 1000.0)
    federation = found(archive, clients=1)
    archive.mine(5)
    with (
        proxy(archive.url) as ahead,
        proxy(archive.url, lag=2) as behind,
        connect([ahead.url, behind.url], quorum=1, proofs=proofs) as network,
    ):
        ledger = reader(federation, network)
        before = ledger.records()
        rotate(federation)
        assert len(ledger.records()) == len(before) + 1
        archive.mine(2)
        ledger.records()
        reorganise(archive, 5)
        ahead.mode = "drop"
        assert ledger.records() == before


@pytest.mark.parametrize("proofs", ["headers", "endpoints"])
def test_nodes_that_must_agree_are_read_up_to_where_they_do(archive, monkeypatch, proofs):
    monkeypatch.setattr(endpoints, "SURVEY_SECONDS", 1000.0)
    federation = found(archive, clients=1)
    with (
        proxy(archive.url) as ahead,
        proxy(archive.url, lag=2) as behind,
        connect([ahead.url, behind.url], proofs=proofs) as network,
    ):
        assert network.quorum == 2
        ledger = reader(federation, network)
        archive.mine(2)
        before = ledger.records()
        rotate(federation)
        assert ledger.records() == before
        archive.mine(1)
        assert ledger.records() == before
        archive.mine(1)
        assert len(ledger.records()) == len(before) + 1


# --- a node that was killed -------------------------------------------------------------------------------------------


def saved_block(state):
    """The block at which anvil last saved its state, -1 while it does."""
    try:
        return json.loads(state.read_bytes())["best_block_number"]
    except (OSError, ValueError):
        return -1


def stop_while_it_writes(node, state, whole_bytes, seconds=60):
    """Stop an anvil that has cut its file off and not yet written it again; that takes it milliseconds each second."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if state.stat().st_size < whole_bytes:
            os.kill(node.pid, signal.SIGSTOP)
            if saved_block(state) < 0:
                return
            os.kill(node.pid, signal.SIGCONT)
    raise AssertionError(f"{state} was never seen half written")


def kill(network):
    os.kill(network.pid, signal.SIGKILL)
    network.close()


def test_a_killed_node_keeps_what_it_saved_and_we_follow_it(tmp_path):
    state, port = tmp_path / "anvil.json", free_port()
    node = anvil(state, port)
    federation = found(node, clients=2)
    federation.open()
    node.mine(20)
    head = node.block_number()
    hashes = [node.block_hash(number) for number in range(head + 1)]
    times = [node.block_time(number) for number in range(head + 1)]
    until(lambda: saved_block(state) == head)
    with connect(node.url) as network:
        client = Ledger(network, federation.deployment, federation.keys[0].account)
        saved = client.records()
        mined = network.mined(saved[-1].at.transaction)
        rotate(federation)
        rotate(federation)
        client.records()
        kill(node)
        with pytest.raises(ChainError):
            client.records()
        with anvil(state, port) as again:
            restarted = again.block_number()
            assert restarted >= head
            assert [network.block_hash(number) for number in range(head + 1)] == hashes
            assert [network.block_time(number) for number in range(head + 1)] == times
            assert network.mined(saved[-1].at.transaction) == mined
            assert client.records()[: len(saved)] == saved
            # Other blocks than those that were lost, at the same heights.
            again.mine(3)
            client.rotate_mailbox_key(federation.keys[0].with_new_mailbox())
            assert client.records() == Ledger(again, federation.deployment).records()
            assert all(historic_hash(again, number) == hashes[number] for number in range(head + 1))


def test_a_killed_node_makes_up_block_hashes_until_they_are_restored(tmp_path):
    """It makes up what BLOCKHASH says of older blocks. The history contract differs, so neither counts."""
    state, port = tmp_path / "anvil.json", free_port()
    node = anvil(state, port)
    federation = found(node, clients=2)
    federation.open()
    node.mine(3)
    url, known = node.url, blocks_of(node)
    until(lambda: saved_block(state) == len(known) - 1)
    kill(node)
    process = subprocess.Popen(anvil_command(port, state), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        again = wait_for(url)
        ledger = Ledger(again, federation.deployment, federation.founder.account)
        with pytest.raises(ContractRevert) as refusal:
            ledger.fix_seed(1)
        assert refusal.value.name == "BlockHashDisputed"
        before = blocks_of(again)  # with one that holds the refused transaction
        restore_block_hashes(url)
        assert blocks_of(again) == before and before[: len(known)] == known
        ledger.fix_seed(1)
        (record,) = [each for each in ledger.records() if isinstance(each, SeedFixed)]
        assert record.block_hash == again.block_hash(ledger.round(1).seed_block)
    finally:
        process.kill()
        process.wait()


def blocks_of(network):
    return [network.request("eth_getBlockByNumber", hex(each), True) for each in range(network.block_number() + 1)]


def test_a_killed_node_loses_no_time(tmp_path):
    state, port = tmp_path / "anvil.json", free_port()
    node = anvil(state, port)
    node.mine()
    until(lambda: saved_block(state) == 1)
    kill(node)
    time.sleep(2)
    with anvil(state, port) as again:
        assert again.block_number() == 1
        again.mine()
        assert again.block_time(2) >= int(time.time()) - 1 > again.block_time(1)


@pytest.mark.parametrize("drawn", [False, True])
def test_a_round_whose_node_is_killed_before_a_block_hash_is_used_closes(tmp_path, drawn):
    state, port = tmp_path / "anvil.json", free_port()
    node = anvil(state, port)
    federation = found(node)
    number = federation.open()
    if drawn:
        all_draw(federation, number)
        node.advance_to(federation.coordinator.round(number).order_block)
    else:
        node.advance_to(federation.coordinator.round(number).seed_block)
    node.mine()
    head = node.block_number()
    until(lambda: saved_block(state) == head)
    kill(node)
    with anvil(state, port) as again:
        federation.network = again
        federation.coordinator, *federation.clients = (
            Ledger(again, federation.deployment, keys.account) for keys in (federation.founder, *federation.keys)
        )
        if not drawn:
            all_draw(federation, number)
        federation.seal(number)
        finish(federation, number, committers=4, model=b"\x09" * 32)
        assert federation.coordinator.current_model() == b"\x09" * 32
        (sealed,) = [each for each in federation.coordinator.records() if isinstance(each, Sealed)]
        assert sealed.order_root == tree.order_root(federation.order(number))


def all_draw(federation, number):
    federation.to_draw(number)
    for index in range(len(federation.clients)):
        federation.draw(number, index)


def historic_hash(network, number):
    """Hash of an old block from the history contract of EIP-2935."""
    return network.call("0x0000F90827F1C53a10cb7A02335B175320002935", number.to_bytes(32, "big"))


def test_a_node_killed_while_it_wrote_starts_from_the_copy(tmp_path):
    state, port = tmp_path / "anvil.json", free_port()
    node = anvil(state, port)
    for _ in range(4):
        node.mine(250)
    copy = anvil_state.copy_of(state)
    until(lambda: saved_block(copy) == 1000)
    node.mine(10)
    stop_while_it_writes(node, state, copy.stat().st_size)
    kill(node)
    for content in (state.read_bytes(), b"", copy.read_bytes()[:-1]):
        state.write_bytes(content)
        with anvil(state, port) as again:
            assert 1000 <= again.block_number() <= 1010
            hashes = again.block_hash(1000)
    with anvil(state, port) as again:
        assert again.block_hash(1000) == hashes


def test_a_state_with_what_a_lost_block_did_is_not_gone_on_from(tmp_path):
    """anvil writes accounts and blocks one after the other: a transaction's effects may be there without its block."""
    state, port, keys = tmp_path / "anvil.json", free_port(), Keys.generate()
    node = anvil(state, port)
    node.fund(keys.address, 1)
    sent = sender_of(node, keys.account).transact(keys.address, b"", 21_000, value=1)
    block, copy = node.block_number(), anvil_state.copy_of(state)
    until(lambda: saved_block(copy) == block)
    kill(node)
    torn = json.loads(copy.read_bytes())
    del torn["transactions"][-1]
    state.write_text(json.dumps(torn))
    with anvil(state, port) as again:
        assert again.nonce(keys.address) == 1 and again.mined(sent.transaction) is not None


def test_nothing_is_left_of_a_killed_node(tmp_path):
    node = anvil(tmp_path / "anvil.json")
    node.mine(5)
    until(lambda: saved_block(anvil_state.copy_of(tmp_path / "anvil.json")) == 5)
    assert processes_about(tmp_path)
    kill(node)
    until(lambda: not processes_about(tmp_path))


def processes_about(path):
    found = []
    for each in os.listdir("/proc"):
        try:
            with open(f"/proc/{each}/cmdline", "rb") as command:
                if os.fsencode(path) in command.read():
                    found.append(int(each))
        except OSError:
            continue
    return found
