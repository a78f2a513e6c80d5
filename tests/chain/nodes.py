"""Nodes that do not do what they should: real HTTP servers in threads, most of them in front of a real node."""

import json
import os
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from fedgrove.chain.errors import ConnectionFailed
from fedgrove.chain.face import networks
from fedgrove.chain.face.networks import anvil_command, find_anvil


@contextmanager
def anvil_or_skip(*options):
    """A real node, with more of anvil's options; where none is installed, and not in CI, the test is skipped."""
    try:
        find_anvil()
    except ConnectionFailed as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "anvil_command", lambda *parts: [*anvil_command(*parts), *options])
        network = networks.anvil()
    with network:
        yield network


class Proxy:
    """An HTTP server that hands requests to a node; how it spoils them is set while it runs.

    ``mode``: ok, hang, error (status 500), html, nonsense, drop (closes the connection), huge, drip, redirect.
    ``lag``: its head is so many blocks behind; it knows nothing of later ones. ``chain_id``: what it claims, if set.
    ``drop_every``: of so many requests it drops one.
    """

    def __init__(self, upstream=None):
        self.upstream = upstream
        self.mode = "ok"
        self.lag = 0
        self.chain_id = None
        self.drop_every = 0
        self.methods = []
        self.count = 0
        self.released = threading.Event()
        self._lock = threading.Lock()

    def head(self):
        answer = requests.post(self.upstream, json={"jsonrpc": "2.0", "id": 0, "method": "eth_blockNumber"}, timeout=10)
        return max(0, int(answer.json()["result"], 16) - self.lag)

    def answer(self, payload):
        calls = payload if isinstance(payload, list) else [payload]
        with self._lock:
            self.methods += [call["method"] for call in calls]
            self.count += 1
            if self.drop_every and self.count % self.drop_every == 0:
                return None
        answers = [self._one(call) for call in calls]
        return answers if isinstance(payload, list) else answers[0]

    def _one(self, call):
        method, parameters = call["method"], call.get("params", [])
        if method == "eth_chainId" and self.chain_id is not None:
            return {"jsonrpc": "2.0", "id": call["id"], "result": hex(self.chain_id)}
        if self.lag:
            head = self.head()
            if method == "eth_blockNumber":
                return {"jsonrpc": "2.0", "id": call["id"], "result": hex(head)}
            call = call | {"params": [hex(head) if parameter == "latest" else parameter for parameter in parameters]}
            if method == "eth_getBlockByNumber" and int(call["params"][0], 16) > head:
                return {"jsonrpc": "2.0", "id": call["id"], "result": None}
        answer = requests.post(self.upstream, json=call, timeout=60).json()
        block = answer["result"].get("blockNumber") if self.lag and isinstance(answer.get("result"), dict) else None
        if block is not None and int(block, 16) > self.head():
            answer["result"] = None
        if self.lag and method == "eth_getLogs":
            answer["result"] = [log for log in answer["result"] if int(log["blockNumber"], 16) <= self.head()]
        return answer


@contextmanager
def proxy(upstream=None, **settings):
    """A Proxy that runs; its ``url`` is where."""
    served = Proxy(upstream)
    for name, value in settings.items():
        setattr(served, name, value)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            spoil = getattr(self, f"_{served.mode}", None)
            if spoil is not None:
                spoil()
                return
            answer = served.answer(json.loads(body))
            if answer is None:
                self._drop()
            else:
                self._send(200, json.dumps(answer).encode())

        def _send(self, status, body, **headers):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def _hang(self):
            served.released.wait(60)
            self.close_connection = True

        def _error(self):
            self._send(500, b'{"jsonrpc":"2.0","id":0,"result":"0x1"}')

        def _html(self):
            self._send(200, b"<html><body>Please sign in</body></html>")

        def _nonsense(self):
            self._send(200, b'{"jsonrpc":"2.0","id":0,"result":{"number":[]}}')

        def _redirect(self):
            self._send(302, b"", Location="http://127.0.0.1:9/")

        def _drop(self):
            self.close_connection = True

        def _endless(self, chunk, pause):
            self.send_response(200)
            self.end_headers()
            self.close_connection = True
            try:
                while not served.released.wait(pause):
                    self.wfile.write(chunk)
            except OSError:
                return

        def _huge(self):
            self._endless(b" " * (1 << 20), 0)

        def _drip(self):
            self._endless(b" ", 0.05)

        def log_message(self, *arguments):
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        served.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def until(condition, seconds=60):
    """Wait until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
