"""Several endpoints of one chain: whatever one of them does, the others serve."""

from contextlib import suppress

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ConnectionFailed, WrongChain
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect
from fedgrove.chain.network import endpoint, endpoints
from fedgrove.chain.network.transactions import sender_of
from tests.chain.federations import MODEL, found
from tests.chain.nodes import proxy

NOBODY = "http://127.0.0.1:9"
BAD = ["hang", "error", "html", "nonsense", "drop", "huge", "drip", "redirect"]
BUSY_SECONDS = 4
"""In which a proxy and its node answer on a machine that runs other tests beside this one."""


@pytest.fixture(autouse=True)
def frequent_surveys(monkeypatch):
    monkeypatch.setattr(endpoints, "SURVEY_SECONDS", 0.0)


@pytest.fixture
def good(anvil_network):
    with proxy(anvil_network.url) as served:
        yield served


@pytest.fixture
def other(anvil_network):
    with proxy(anvil_network.url) as served:
        yield served


@pytest.mark.parametrize("mode", BAD)
def test_an_endpoint_that_was_never_a_node_is_passed_by(anvil_network, other, mode, monkeypatch):
    monkeypatch.setattr(endpoint, "MAX_ANSWER_BYTES", 1 << 22)
    other.mode = mode
    with connect([other.url, anvil_network.url], timeout=BUSY_SECONDS) as network:
        assert network.block_number() == anvil_network.block_number()
        assert network.chain_id == anvil_network.chain_id


@pytest.mark.parametrize("mode", BAD)
def test_an_endpoint_that_goes_bad_is_left_for_the_next(anvil_network, good, other, mode, monkeypatch):
    monkeypatch.setattr(endpoint, "MAX_ANSWER_BYTES", 1 << 22)
    monkeypatch.setattr(endpoints, "SURVEY_SECONDS", 1000.0)
    with connect([other.url, good.url], timeout=BUSY_SECONDS) as network:
        before = len(good.methods)
        other.mode = mode
        for _ in range(5):
            assert network.block_number() == anvil_network.block_number()
        assert len(good.methods) >= before + 5
        asked = other.count
        assert network.balance(Keys.generate().address) == 0
        assert other.count == asked


@pytest.mark.parametrize("mode", BAD)
def test_a_lone_endpoint_that_goes_bad_is_told_and_asked_again(anvil_network, other, mode, monkeypatch):
    monkeypatch.setattr(endpoint, "MAX_ANSWER_BYTES", 1 << 22)
    with connect(other.url, timeout=BUSY_SECONDS) as network:
        other.mode = mode
        with pytest.raises(ConnectionFailed, match=other.url):
            network.block_number()
        other.mode = "ok"
        assert network.block_number() == anvil_network.block_number()


def test_an_endpoint_that_nobody_serves_is_passed_by(anvil_network):
    with connect([NOBODY, anvil_network.url], timeout=2) as network:
        assert network.block_number() == anvil_network.block_number()


def test_when_all_fail_each_is_named_without_its_secret(other):
    other.mode = "html"
    secret = other.url.replace("http://", "http://user:hunter2@") + "/key-1234"
    with pytest.raises(ConnectionFailed) as fault:
        connect([NOBODY + "/key-1234", secret], timeout=2)
    told = str(fault.value)
    assert NOBODY in told and other.url in told and "sends answers that are not an EVM node's" in told
    assert "key-1234" not in told and "hunter2" not in told


def test_when_all_fail_later_each_is_named(good, other):
    with connect([good.url, other.url], timeout=BUSY_SECONDS) as network:
        good.mode, other.mode = "error", "drop"
        with pytest.raises(ConnectionFailed, match="status 500") as fault:
            network.block_number()
        assert good.url in str(fault.value) and other.url in str(fault.value)
        good.mode = "ok"
        assert network.block_number() >= 0


def test_another_chain_is_passed_by_or_refused(anvil_network, other):
    other.chain_id = 7
    with connect([other.url, anvil_network.url], anvil_network.chain_id) as network:
        assert network.chain_id == anvil_network.chain_id
    with pytest.raises(WrongChain, match="serves chain 7"):
        connect([other.url, other.url], anvil_network.chain_id)
    with connect([anvil_network.url, other.url]) as network:
        assert network.chain_id == anvil_network.chain_id
    with pytest.raises(ConnectionFailed, match="serves chain 7"):
        connect([NOBODY, other.url], anvil_network.chain_id)


def test_an_endpoint_that_comes_back_with_another_chain_is_not_used(anvil_network, good, other, monkeypatch):
    monkeypatch.setattr(endpoints, "COOL_DOWN_SECONDS", 0.0)
    monkeypatch.setattr(endpoints, "SURVEY_SECONDS", 1000.0)
    with connect([good.url, other.url], timeout=BUSY_SECONDS) as network:
        good.mode = "drop"
        network.block_number()
        good.mode, good.chain_id = "ok", 7
        other.mode = "drop"
        good.methods.clear()
        with pytest.raises(ConnectionFailed, match="serves chain 7"):
            network.balance(Keys.generate().address)
        assert "eth_getBalance" not in good.methods
        good.chain_id = None
        assert network.balance(Keys.generate().address) == 0
        assert "eth_getBalance" in good.methods


def test_a_lone_endpoint_that_comes_back_with_another_chain_is_told(other):
    with connect(other.url) as network:
        other.mode = "drop"
        with pytest.raises(ConnectionFailed):
            network.block_number()
        other.mode, other.chain_id = "ok", 7
        with pytest.raises(WrongChain, match="serves chain 7"):
            network.block_number()


def test_an_endpoint_that_lags_is_left_and_comes_back(anvil_network, good, other, monkeypatch):
    monkeypatch.setattr(endpoints, "COOL_DOWN_SECONDS", 0.0)
    anvil_network.mine(20)
    with connect([other.url, good.url]) as network:
        other.lag = endpoints.MAX_LAG_BLOCKS
        assert network.block_number() == anvil_network.block_number() - endpoints.MAX_LAG_BLOCKS
        other.lag = endpoints.MAX_LAG_BLOCKS + 1
        assert network.block_number() == anvil_network.block_number()
        other.lag, good.mode = 0, "drop"
        assert network.block_number() == anvil_network.block_number()


def test_an_endpoint_that_lags_is_used_when_it_is_the_only_one(anvil_network, good, other):
    anvil_network.mine(20)
    with connect([other.url, good.url]) as network:
        other.lag = 15
        assert network.block_number() == anvil_network.block_number()
        good.mode = "drop"
        for _ in range(3):
            assert network.block_number() == anvil_network.block_number() - 15
    with connect(other.url) as network:
        assert network.block_number() == anvil_network.block_number() - 15
    with connect([NOBODY, other.url]) as network:
        assert network.block_number() == anvil_network.block_number() - 15


def test_a_block_that_one_lacks_is_had_from_the_other(anvil_network, good, other, monkeypatch):
    monkeypatch.setattr(endpoints, "SURVEY_SECONDS", 1000.0)
    anvil_network.mine(5)
    head = anvil_network.block_number()
    with connect([other.url, good.url]) as network:
        other.lag = 1
        assert network.block_hash(head) == anvil_network.block_hash(head)
        assert network.block_number() == head - 1
        with pytest.raises(ConnectionFailed, match=f"has no block {head + 1}"):
            network.block_hash(head + 1)


def test_logs_of_blocks_that_the_node_lacks_are_not_taken_for_none(anvil_network, good, other, monkeypatch):
    monkeypatch.setattr(endpoints, "SURVEY_SECONDS", 1000.0)
    federation = found(anvil_network, clients=1)
    federation.clients[0].rotate_mailbox_key(federation.keys[0].with_new_mailbox())
    head = federation.coordinator.records()[-1].at.block
    addresses = (federation.deployment.registry, federation.deployment.ledger)
    with connect([other.url, good.url]) as network:
        other.lag = anvil_network.block_number() - head + 1
        assert len(network.logs(federation.deployment.block, head, addresses)) == 4
    with connect(other.url) as alone, pytest.raises(ConnectionFailed, match="has no block"):
        alone.logs(federation.deployment.block, head, addresses)


def test_a_federation_runs_over_endpoints_that_drop_requests(anvil_network, good, other, monkeypatch):
    monkeypatch.setattr(endpoints, "COOL_DOWN_SECONDS", 0.0)
    federation = found(anvil_network, clients=0)
    with connect([good.url, other.url]) as network:
        good.drop_every, other.drop_every = 5, 7
        ledger = Ledger(network, federation.deployment, federation.founder.account)
        keys = Keys.generate()
        anvil_network.fund(keys.address, 1)
        Ledger(network, federation.deployment, keys.account).register(keys)
        ledger.open(MODEL)
        for _ in range(5):
            with suppress(ConnectionFailed):  # both of them must answer at once
                assert ledger.records() == federation.coordinator.records()
                break
        else:
            raise AssertionError("the records cannot be read")
        assert len(ledger.records()) == 4


def test_a_transaction_that_got_there_before_the_answer_was_lost_is_sent_once(anvil_network, good):
    """The first endpoint hands every transaction on and then drops the connection."""
    keys = Keys.generate()
    anvil_network.fund(keys.address, 1)
    with proxy(anvil_network.url) as lossy:
        handed_on = lossy.answer

        def lose(payload):
            answer = handed_on(payload)
            sending = isinstance(payload, dict) and payload["method"] == "eth_sendRawTransaction"
            return None if sending else answer

        lossy.answer = lose
        with connect([lossy.url, good.url]) as network:
            mined = sender_of(network, keys.account).transact(keys.address, b"", 21_000, value=1)
            assert mined.succeeded
            assert "eth_sendRawTransaction" in lossy.methods and "eth_sendRawTransaction" in good.methods
    assert anvil_network.nonce(keys.address) == 1


def test_an_error_that_a_node_states_is_no_failure(good, other):
    with connect([good.url, other.url]) as network:
        with pytest.raises(endpoint.RpcError):
            network.request("eth_noSuchMethod")
        assert "eth_noSuchMethod" not in other.methods


def test_web3_goes_through_the_same_endpoints(anvil_network, other):
    with connect([other.url, anvil_network.url]) as network:
        other.mode = "drop"
        assert network.web3.eth.block_number == anvil_network.block_number()


def test_no_endpoint_at_all():
    with pytest.raises(ConnectionFailed, match="at least one"):
        connect([])
