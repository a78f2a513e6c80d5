"""Addresses of Kubo's API: with a user and a path, over a socket, and their secrets in no message."""

import base64
import codecs
import http.client
import socketserver
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from fedgrove.ipfs.kubo import PASSWORD_FILE_VARIABLE, KuboStore, open_kubo
from fedgrove.ipfs.kubo_address import KuboAddress, read_address
from fedgrove.ipfs.password_file import read_password_file
from fedgrove.ipfs.store import StoreError
from fedgrove.node.devnet.kubo.local_node import LocalKubo
from tests.ipfs.kubo_nodes import needs_kubo, quiet

PASSWORD = "s3cret words"
TOKEN = "Basic " + base64.b64encode(f"alice:{PASSWORD}".encode()).decode()


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("http://127.0.0.1:5001", KuboAddress("http://127.0.0.1:5001", "/ip4/127.0.0.1/tcp/5001/http")),
        ("https://ipfs.example/", KuboAddress("https://ipfs.example", "/dns/ipfs.example/tcp/5001/https")),
        ("http://[::1]:7", KuboAddress("http://[::1]:7", "/ip6/::1/tcp/7/http")),
        (
            "https://alice@ipfs.example:443/a/",
            KuboAddress("https://ipfs.example:443/a", "/dns/ipfs.example/tcp/443/https", "a/api/v0", "alice"),
        ),
        ("unix:/run/kubo.sock", KuboAddress("unix:/run/kubo.sock", "/unix/run/kubo.sock")),
        ("/ip4/127.0.0.1/tcp/5001/http", KuboAddress("/ip4/127.0.0.1/tcp/5001/http", "/ip4/127.0.0.1/tcp/5001/http")),
    ],
)
def test_addresses(address, found):
    assert read_address(address) == found


@pytest.mark.parametrize("address", ["", "ftp://127.0.0.1:5001", "http://", "http://[::1", "http://node:port"])
def test_any_other_address_is_one_sentence_with_examples(address):
    with pytest.raises(StoreError, match="RPC API has the form"):
        read_address(address)


def test_a_password_in_an_address_is_refused_with_what_to_do():
    with pytest.raises(StoreError, match=r"network\.store_password_file") as fault:
        read_address(f"http://alice:{PASSWORD.split()[0]}@127.0.0.1:5001")
    assert "s3cret" not in str(fault.value)


class Gateway(BaseHTTPRequestHandler):
    """Hands requests on to a node, only with the right authorisation and below a path."""

    node, prefix, token = "", "", None

    def address_string(self):
        return "a client"

    def log_message(self, *args):
        return

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or self.chunks()
        if self.token and self.headers.get("Authorization") != self.token:
            self.answer(401, b"")
            return
        assert self.path.startswith(self.prefix)
        connection = http.client.HTTPConnection(self.node, timeout=30)
        kept = {name: value for name, value in self.headers.items() if name in ("Content-Type",)}
        connection.request("POST", self.path.removeprefix(self.prefix), body, kept)
        answer = connection.getresponse()
        self.answer(answer.status, answer.read())

    def chunks(self):
        found = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        return found

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def gateway(kind, where, node, **how):
    handler = type("Gate", (Gateway,), {"node": node.url.removeprefix("http://"), **how})
    with kind(where, handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with LocalKubo(tmp_path_factory.mktemp("kubo")) as node:
        yield node


@quiet
@needs_kubo
def test_a_node_behind_a_gateway_is_used_by_its_user_below_its_path(node, tmp_path, monkeypatch):
    (tmp_path / "password").write_text(PASSWORD + "\n")
    with gateway(socketserver.ThreadingTCPServer, ("127.0.0.1", 0), node, prefix="/store", token=TOKEN) as server:
        address = f"http://alice@127.0.0.1:{server.server_address[1]}/store"
        store = open_kubo(address, 30.0, str(tmp_path / "password"))
        cid = store.put(b"behind a gateway")
        assert store.fetch(cid.digest, 100) == b"behind a gateway"
        monkeypatch.setenv(PASSWORD_FILE_VARIABLE, str(tmp_path / "password"))
        assert open_kubo(address).has(cid.digest)
        with pytest.raises(StoreError) as fault:
            KuboStore(address, password="another").fetch(cid.digest, 100)
        assert "another" not in str(fault.value) and "alice" not in str(fault.value)


@quiet
@needs_kubo
def test_a_node_is_used_over_a_socket(node, tmp_path):
    path = tmp_path / "kubo.sock"
    with gateway(socketserver.ThreadingUnixStreamServer, str(path), node):
        store = KuboStore(f"unix:{path}")
        assert store.fetch(store.put(b"over a socket").digest, 100) == b"over a socket"


def test_a_password_file_that_is_missing_is_a_sentence():
    with pytest.raises(StoreError, match="cannot read the password file /nowhere of the store"):
        open_kubo("http://127.0.0.1:5001", 1.0, "/nowhere")


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("start", [b"", codecs.BOM_UTF8])
def test_a_password_ends_with_its_line_however_that_was_written(tmp_path, start, ending):
    (tmp_path / "password").write_bytes(start + "geheim ö ".encode() + ending)
    assert read_password_file(tmp_path / "password") == "geheim ö "
