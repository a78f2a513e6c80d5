"""Word of new blocks from a real node, and what happens when there is none."""

import json
import socket
import threading
import time
from contextlib import contextmanager

import pytest
from websockets.sync.server import serve

from fedgrove.chain.errors import ConnectionFailed
from fedgrove.chain.face.networks import anvil
from fedgrove.chain.network import heads
from fedgrove.chain.network.heads import Heads
from tests.chain.nodes import proxy, until

NEVER = 3600.0


@pytest.fixture(autouse=True)
def no_thread_is_left(monkeypatch):
    monkeypatch.setattr(heads, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(heads, "MAX_PAUSE_SECONDS", 0.2)
    before = set(threading.enumerate())
    yield
    until(lambda: set(threading.enumerate()) <= before)


@contextmanager
def websocket_server(talk):
    with serve(talk, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


def subscribe(connection):
    call = json.loads(connection.recv())
    connection.send(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": "0x1"}))


def head(connection):
    connection.send(json.dumps({"jsonrpc": "2.0", "method": "eth_subscription", "params": {}}))


def test_a_new_block_ends_the_wait():
    with anvil(block_seconds=1000) as network, Heads(network.url) as following:
        until(lambda: following.subscribed)
        assert not following.wait(0.05)
        timer = threading.Timer(0.2, network.mine)
        timer.start()
        assert following.wait(NEVER)
        timer.join()
        assert not following.wait(0.05)


def test_blocks_between_two_waits_are_told_once():
    with anvil(block_seconds=1000) as network, Heads([network.url]) as following:
        until(lambda: following.subscribed)
        network.mine(3)
        until(lambda: following._heads == 3)
        assert following.wait(NEVER)
        assert not following.wait(0.05)


def test_it_comes_back_with_the_node():
    with anvil(block_seconds=1000) as network:
        following = Heads(network.url, poll_seconds=0.05)
        port = int(network.url.rsplit(":", 1)[1])
        until(lambda: following.subscribed)
        threading.Timer(0.2, network.close).start()
        # The end of a subscription ends the wait too: from now on one has to look by oneself.
        assert not following.wait(NEVER)
        until(lambda: not following.subscribed)
    assert not following.wait(NEVER)
    with following, anvil(port=port, block_seconds=1000) as network:
        until(lambda: following.subscribed)
        network.mine()
        assert following.wait(NEVER)


def test_without_a_websocket_the_wait_is_short():
    with proxy() as plain, Heads(plain.url, poll_seconds=0.05) as following:
        for _ in range(5):
            assert not following.wait(NEVER)
    with Heads("http://127.0.0.1:9", poll_seconds=0.05) as following:
        assert not following.wait(NEVER)


def test_the_next_endpoint_is_tried():
    with (
        anvil(block_seconds=1000) as network,
        proxy() as plain,
        Heads([plain.url, "http://127.0.0.1:9", network.url]) as following,
    ):
        until(lambda: following.subscribed)
        network.mine()
        assert following.wait(NEVER)


def test_the_websocket_that_was_named_is_used():
    with (
        anvil(block_seconds=1000) as network,
        Heads("http://127.0.0.1:9/secret", network.url.replace("http", "ws")) as following,
    ):
        until(lambda: following.subscribed)


@pytest.mark.parametrize("websocket", ["http://127.0.0.1:1", "ws://", "ws://x:port", "nonsense"])
def test_a_websocket_that_is_none(websocket):
    with pytest.raises(ConnectionFailed, match="WebSocket's URL"):
        Heads("http://127.0.0.1:9", websocket)


def test_a_url_that_is_none():
    with pytest.raises(ConnectionFailed, match="node's URL"):
        Heads("127.0.0.1:9")


@pytest.mark.parametrize(
    "answer",
    [
        "hello",
        "[]",
        "[" * 100_000,
        " " * (2 << 20),
        b"\xff\xfe",
        '{"id":1,"error":{"code":-32601,"message":"no"}}',
        '{"id":1,"result":null}',
        '{"method":"eth_subscription"}',
    ],
)
def test_what_a_node_must_not_say_is_no_head(answer):
    calls = []

    def talk(connection):
        calls.append(connection.recv())
        connection.send(answer)
        connection.recv(0.1)

    with websocket_server(talk) as place, Heads("http://127.0.0.1:9", place, poll_seconds=0.05) as following:
        until(lambda: len(calls) >= 3)
        assert not following.wait(NEVER)


def test_a_broken_subscription_is_made_anew():
    def talk(connection):
        subscribe(connection)
        head(connection)

    with websocket_server(talk) as place, Heads("http://127.0.0.1:9", place, poll_seconds=0.05) as following:
        told = 0
        deadline = time.monotonic() + 60
        while told < 3 and time.monotonic() < deadline:
            told += following.wait(NEVER)
        assert told == 3


def test_a_subscription_that_died_silently_is_found_out(monkeypatch):
    monkeypatch.setattr(heads, "PING_SECONDS", 0.1)
    stalled = threading.Event()

    class Gate:
        """Passes bytes between the client and a node until it is shut; the connections stay open."""

        def __init__(self, target):
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
            self.target = target
            self.threads = []
            self.sockets = []
            self.spawn(self.accept)

        def spawn(self, call, *arguments):
            self.threads.append(threading.Thread(target=call, args=arguments))
            self.threads[-1].start()

        def accept(self):
            while True:
                try:
                    inner, _ = self.listener.accept()
                except OSError:
                    return
                outer = socket.create_connection(self.target)
                self.sockets += [inner, outer]
                self.spawn(self.pump, inner, outer)
                self.spawn(self.pump, outer, inner)

        def pump(self, source, sink):
            try:
                while data := source.recv(65536):
                    if not stalled.is_set():
                        sink.sendall(data)
            except OSError:
                return

        def close(self):
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            for one in self.sockets:
                one.close()
            for thread in self.threads:
                thread.join(5)

    with anvil(block_seconds=1000) as network:
        gate = Gate(("127.0.0.1", int(network.url.rsplit(":", 1)[1])))
        try:
            with Heads(gate.url, poll_seconds=0.05) as following:
                until(lambda: following.subscribed)
                stalled.set()
                assert not following.wait(NEVER)
                until(lambda: not following.subscribed)
        finally:
            for one in gate.sockets:
                one.shutdown(socket.SHUT_RDWR) if one.fileno() >= 0 else None
            gate.close()


def test_closing_ends_a_wait_for_a_node_that_says_nothing():
    silent = socket.create_server(("127.0.0.1", 0))
    try:
        following = Heads(f"http://127.0.0.1:{silent.getsockname()[1]}", poll_seconds=0.05)
        assert not following.wait(NEVER)
        following.close()
        following.close()
    finally:
        silent.close()
