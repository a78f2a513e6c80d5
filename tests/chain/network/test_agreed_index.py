"""Records by the word of several endpoints, for chains whose headers nobody can recompute; only on request."""

import pytest
from eth_utils import keccak

from fedgrove.chain.errors import BadHistory, ConnectionFailed
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect
from fedgrove.chain.network.endpoint import RpcError
from fedgrove.chain.network.rpc import RpcNetwork
from tests.chain.federations import found
from tests.chain.nodes import proxy


@pytest.fixture(scope="module")
def federation(anvil_network):
    made = found(anvil_network, clients=2)
    number = made.open()
    made.to_draw(number)
    made.draw(number, 0)
    return made


def answers_with(node, method, change):
    """Let ``change`` make the results of a method, in batches and alone."""
    handed_on = node.answer

    def answer(payload):
        found = handed_on(payload)
        calls, answers = (payload, found) if isinstance(payload, list) else ([payload], [found])
        for call, each in zip(calls, answers, strict=True):
            if call["method"] == method and each.get("result") is not None:
                each["result"] = change(each["result"])
        return found

    node.answer = answer


def other_hashes(block):
    """As of a chain whose headers hold more than JSON-RPC tells."""
    renamed = {name: "0x" + keccak(hexstr=block[name]).hex() for name in ("hash", "parentHash")}
    return block | renamed


def test_it_reads_what_headers_prove(federation, anvil_network):
    with connect(anvil_network.url, proofs="endpoints") as network:
        by_word, proven = (Ledger(each, federation.deployment) for each in (network, anvil_network))
        assert by_word.records() == proven.records()
        assert [record.at.author for record in by_word.records()] == [record.at.author for record in proven.records()]
        head = by_word.confirmed_block()
        assert head == proven.confirmed_block()
        for number in (federation.deployment.block, head):
            assert by_word.block_hash(number) == proven.block_hash(number)
            assert by_word.block_randomness(number) == proven.block_randomness(number)
        with pytest.raises(BadHistory):
            by_word.block_hash(head + 1)
        by_word.forget()
        assert by_word.confirmed_block() < federation.deployment.block
        assert by_word.records() == proven.records()


def test_a_chain_with_other_headers_is_read_only_so(federation, anvil_network):
    with proxy(anvil_network.url) as node:
        answers_with(node, "eth_getBlockByNumber", other_hashes)
        with connect(node.url) as network, pytest.raises(BadHistory, match=r"network\.proofs"):
            Ledger(network, federation.deployment).records()
        with connect(node.url, proofs="endpoints") as network:
            ledger = Ledger(network, federation.deployment)
            assert ledger.records() == federation.coordinator.records()
            block = federation.deployment.block
            assert ledger.block_hash(block) == keccak(anvil_network.block_hash(block))


def test_one_that_leaves_records_out_is_outvoted_or_stops_the_reading(federation, anvil_network):
    with proxy(anvil_network.url) as lying, proxy(anvil_network.url) as other, proxy(anvil_network.url) as third:
        answers_with(lying, "eth_getLogs", lambda logs: logs[:-1])
        with connect([lying.url, other.url, third.url], proofs="endpoints") as network:
            assert Ledger(network, federation.deployment).records() == federation.coordinator.records()
        with (
            connect([lying.url, other.url], proofs="endpoints") as network,
            pytest.raises(ConnectionFailed, match="do not agree on the records of blocks"),
        ):
            Ledger(network, federation.deployment).records()
        with connect([lying.url, other.url], proofs="endpoints", quorum=1) as network:
            assert len(Ledger(network, federation.deployment).records()) == len(federation.coordinator.records()) - 1


def test_all_of_them_can_invent_nothing_in_a_members_name(federation, anvil_network):
    def other_keys(logs):
        drawn = logs[-1]
        words = drawn["data"][2:]
        return [*logs[:-1], drawn | {"data": "0x" + words[:64] + "ab" * 32 + words[128:]}]

    with proxy(anvil_network.url) as node, connect(node.url, proofs="endpoints") as network:
        answers_with(node, "eth_getLogs", other_keys)
        with pytest.raises(BadHistory, match="Drawn does not follow from its transaction"):
            Ledger(network, federation.deployment).records()


@pytest.mark.parametrize("field", ["input", "nonce", "r", "to"])
def test_a_transaction_that_has_another_hash_is_had_elsewhere(federation, anvil_network, field):
    def changed(transaction):
        value = transaction[field] or "0x" + "00" * 20
        return transaction | {field: value[:-1] + ("1" if value[-1] != "1" else "2")}

    with proxy(anvil_network.url) as lying, proxy(anvil_network.url) as other:
        answers_with(lying, "eth_getTransactionByHash", changed)
        with connect([lying.url, other.url], proofs="endpoints") as network:
            assert Ledger(network, federation.deployment).records() == federation.coordinator.records()
        with connect(lying.url, proofs="endpoints") as network, pytest.raises(ConnectionFailed):
            Ledger(network, federation.deployment).records()


def test_logs_of_other_blocks_than_asked_for_are_refused(federation, anvil_network):
    def later(logs):
        return [*logs[:-1], logs[-1] | {"blockNumber": "0xffff"}]

    with proxy(anvil_network.url) as node, connect(node.url, proofs="endpoints") as network:
        answers_with(node, "eth_getLogs", later)
        with pytest.raises(BadHistory, match="whose records were asked for"):
            Ledger(network, federation.deployment).records()


def test_it_is_used_on_request_only(anvil_network):
    with connect(anvil_network.url) as network:
        assert network.proofs == "headers"
    with pytest.raises(ValueError, match="headers, endpoints"):
        connect(anvil_network.url, proofs="none")


def test_a_node_that_refuses_to_give_blocks_is_passed_by(federation, anvil_network):
    """An error in due form is an answer elsewhere; of parts of blocks it is a reason to ask the next."""
    with proxy(anvil_network.url) as refusing, proxy(anvil_network.url) as other:
        handed_on = refusing.answer

        def answer(payload):
            if isinstance(payload, list):
                return [{"jsonrpc": "2.0", "id": call["id"], "error": {"code": 1, "message": "no"}} for call in payload]
            return handed_on(payload)

        refusing.answer = answer
        with connect([refusing.url, other.url]) as network:
            assert Ledger(network, federation.deployment).records() == federation.coordinator.records()
            with pytest.raises(RpcError):
                network.requests([("eth_blockNumber", ())])
        with connect(refusing.url) as network, pytest.raises(ConnectionFailed, match="refuses eth_getBlockByNumber"):
            Ledger(network, federation.deployment).records()


def test_two_urls_at_one_place_are_one_voice(anvil_network):
    twice = [anvil_network.url, anvil_network.url + "/other-key"]
    with connect(twice) as network:
        assert network.quorum == 1
    with pytest.raises(ConnectionFailed, match="2 endpoints must agree, but only 1 are given"):
        RpcNetwork(twice, quorum=2)


def test_a_liar_between_two_heads_stops_nobody(federation, anvil_network):
    """One honest node is two blocks behind the other, and the liar makes up a hash for the block between."""
    anvil_network.mine(5)
    with (
        proxy(anvil_network.url) as ahead,
        proxy(anvil_network.url, lag=2) as behind,
        proxy(anvil_network.url, lag=1) as lying,
    ):
        answers_with(lying, "eth_getBlockByNumber", other_hashes)
        with connect([lying.url, ahead.url, behind.url]) as network:
            number, found = network.agreed_head()
            assert (number, found) == (anvil_network.block_number() - 2, anvil_network.block_hash(number))
