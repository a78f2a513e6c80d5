"""A server that answers a byte a second, or without end, or with what breaks a parser.

Who attacks: whoever runs an endpoint of the chain, a store or the address of a webhook, or sits on the way to it. It
wants to hold a member past its windows, or to fill its memory. What stops it: one deadline and one bound on bytes for
a whole request, its header included (``fedgrove.common.bounded_http``), whoever makes it; then the next endpoint is
asked.
"""

import time
import tracemalloc
from contextlib import ExitStack, contextmanager

import pytest

from fedgrove.chain.errors import ConnectionFailed
from fedgrove.chain.face.networks import anvil, connect, embedded
from fedgrove.chain.network import heads
from fedgrove.chain.network.heads import Heads
from fedgrove.common.errors import RunFailed
from fedgrove.ipfs.cid import CID, RAW
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.store import StoreError
from fedgrove.node.audit import webhook
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.audit.webhook import Webhook
from tests.adversary.served import served
from tests.adversary.slow_servers import (
    SPOILERS,
    deep,
    endless_refusal,
    serving,
    slow_header,
    words_of_a_node,
    words_of_a_store,
)

SECONDS = 1.0  # in which an honest endpoint answers
SHORT = 0.3
LONG = 20  # seconds after which an attacker has won; the machine may be busy
MOST_MEMORY = 400 << 20
CONTENT = CID.of_block(b"a model", RAW)
each_spoiler = pytest.mark.parametrize("spoil", SPOILERS, ids=lambda spoil: spoil.__name__)
some_spoilers = pytest.mark.parametrize("spoil", [slow_header, endless_refusal, deep], ids=lambda spoil: spoil.__name__)


@contextmanager
def soon_and_small():
    """What is done here takes neither long nor much memory."""
    started = time.monotonic()
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()
    assert time.monotonic() - started < LONG


def is_a_sentence(text):
    return text.isprintable() and len(text) < 1000


def beside_honest(stack, spoil):
    """A chain, its endpoint, and one that spoils its answers."""
    chain = stack.enter_context(embedded())
    return chain, stack.enter_context(served(chain)), stack.enter_context(serving(spoil))


@each_spoiler
def test_the_honest_endpoint_is_asked_instead(spoil):
    with ExitStack() as stack:
        chain, honest, url = beside_honest(stack, spoil)
        stack.enter_context(soon_and_small())
        network = stack.enter_context(connect([url, honest], timeout=SECONDS, quorum=1))
        assert network.block_number() == chain.block_number()


@some_spoilers
def test_an_endpoint_that_spoils_later_is_left_for_the_honest_one(spoil):
    """It is honest until the connection is made."""
    with ExitStack() as stack:
        chain, honest, url = beside_honest(stack, spoil)
        network = stack.enter_context(connect([honest, url], timeout=SECONDS, quorum=1))
        network._endpoints._current = network._endpoints._all[1]
        with soon_and_small():
            assert network.block_number() == chain.block_number()


@pytest.fixture
def store_at(monkeypatch):
    monkeypatch.setattr("fedgrove.ipfs.kubo._SLACK_SECONDS", 0.1)
    return lambda url: KuboStore(url, timeout=SHORT)


def assert_is_a_sentence_soon(call):
    with soon_and_small(), pytest.raises(StoreError) as fault:
        call()
    assert is_a_sentence(str(fault.value))


@each_spoiler
def test_a_store_that_spoils_its_answers_is_one_sentence(spoil, store_at):
    with serving(spoil) as url:
        assert_is_a_sentence_soon(lambda: store_at(url).put(b"a model"))
        assert_is_a_sentence_soon(lambda: store_at(url).get(CONTENT, 100))


@some_spoilers
def test_so_are_pins_and_garbage(spoil, store_at):
    with serving(spoil) as url:
        assert_is_a_sentence_soon(lambda: store_at(url).pin(CONTENT.digest))
        assert_is_a_sentence_soon(lambda: store_at(url).unpin(CONTENT.digest))
        assert_is_a_sentence_soon(store_at(url).collect_garbage)


@each_spoiler
def test_a_webhook_that_spoils_its_answers_is_given_up(spoil, monkeypatch):
    monkeypatch.setattr(webhook, "SECONDS", SHORT)
    monkeypatch.setattr(webhook, "PAUSE_SECONDS", 0.01)
    with serving(spoil) as url, soon_and_small():
        try:
            Webhook(url).ring(Verdict("verified", 0))
        except RunFailed as fault:
            assert is_a_sentence(str(fault))


def test_a_node_that_is_slow_alone_is_one_sentence():
    with serving(slow_header) as url, soon_and_small():
        with pytest.raises(ConnectionFailed, match="does not answer in time") as fault:
            connect(url, timeout=SECONDS)
        assert is_a_sentence(str(fault.value))


def test_a_slow_node_is_not_asked_for_less_and_less():
    """Blocks are asked for in halves where an answer is large; a node that is slow would be given its time for each."""
    with ExitStack() as stack:
        _, url, slow = beside_honest(stack, slow_header)
        network = stack.enter_context(connect(url, timeout=SECONDS))
        network._endpoints._all[0]._url = slow
        with soon_and_small(), pytest.raises(ConnectionFailed, match="does not answer in time"):
            started = time.monotonic()
            network.bodies(list(range(20)))
        assert time.monotonic() - started < 4 * SECONDS


def test_what_a_node_says_is_quoted_without_what_moves_a_terminal():
    with serving(words_of_a_node) as url, pytest.raises(ConnectionFailed) as fault:
        connect(url, timeout=SECONDS)
    assert is_a_sentence(str(fault.value))


def test_what_a_store_says_is_quoted_without_what_moves_a_terminal():
    with serving(words_of_a_store) as url, pytest.raises(StoreError, match="fine") as fault:
        KuboStore(url, timeout=SECONDS).put(b"a model")
    assert is_a_sentence(str(fault.value))


@each_spoiler
def test_a_websocket_that_spoils_its_answer_is_left_for_the_next(spoil, anvil_url, monkeypatch):
    monkeypatch.setattr(heads, "OPEN_SECONDS", SHORT)
    monkeypatch.setattr(heads, "PAUSE_SECONDS", 0.05)
    with serving(spoil) as url, soon_and_small(), Heads([url, anvil_url]) as following:
        deadline = time.monotonic() + LONG
        while not following.subscribed and time.monotonic() < deadline:
            time.sleep(0.05)
        assert following.subscribed


@pytest.fixture(scope="module")
def anvil_url():
    with anvil() as network:
        yield network.url
