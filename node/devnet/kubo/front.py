"""Process of one Kubo node that runs as a shared library, with the part of Kubo's RPC API that fedgrove uses.

``python -m node.devnet.kubo.front REPO PORT PARENT`` serves the node of ``node.devnet.kubo.library`` on 127.0.0.1 until
SIGINT, or until the process PARENT that started it is gone.
"""

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from urllib.parse import parse_qs, urlsplit

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.cid import CID
from fedgrove.node.devnet.kubo.library import MAX_ARCHIVE_BYTES, Node, Refusal
from fedgrove.node.devnet.kubo.local_node import PEER

_MAX_REQUESTS = 128
_DEFAULT_SECONDS = 60.0
_MAX_SECONDS = 600.0
_MILLISECONDS = re.compile(r"([0-9]{1,9})ms\Z")


class Handler(BaseHTTPRequestHandler):
    """``/api/v0``: POST only, one answer per connection."""

    node: Node
    timeout = 60.0  # seconds without a byte of a request

    def do_POST(self) -> None:
        if self.headers.get("Origin"):  # a web page must not drive the node
            self.send_error(403)
            return
        url = urlsplit(self.path)
        self.options = {name: values[0] for name, values in parse_qs(url.query).items()}
        answer = ANSWERS.get(url.path.removeprefix("/api/v0/"))
        if answer is None:
            self.send_error(404)
            return
        try:
            self._send(200, answer(self))
        except Refusal as fault:
            self._refuse(str(fault))
        except OSError as fault:
            self._refuse(f"the node's disk or its client failed: {fault}")

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002 - http.server names it
        """Keep requests out of the node's log."""

    def version(self) -> bytes:
        return json.dumps({"Version": "0.22.0", "Commit": "", "System": "library"}).encode()

    def identity(self) -> bytes:
        return json.dumps({"ID": self.node.identity, "Addresses": self.node.addresses}).encode()

    def swarm_connect(self) -> bytes:
        self.node.connect(self._peer())
        return json.dumps({"Strings": [f"connect {self._peer()} success"]}).encode()

    def swarm_peering_add(self) -> bytes:
        self.node.keep_connected(self._peer())
        return json.dumps({"ID": self._peer().rsplit("/", 1)[1], "Status": "success"}).encode()

    def swarm_peers(self) -> bytes:
        return json.dumps({"Peers": [{"Addr": address, "Peer": peer} for address, peer in self.node.peers()]}).encode()

    def block_get(self) -> bytes:
        return self.node.find_block(self._cid(), self._seconds())

    def block_stat(self) -> bytes:
        return json.dumps({"Key": str(self._cid()), "Size": len(self.block_get())}).encode()

    def dag_import(self) -> bytes:
        root = self.node.import_archive(self._file(), self._seconds())
        return json.dumps({"Root": {"Cid": {"/": root}, "PinErrorMsg": ""}}).encode()

    def pin_add(self) -> bytes:
        self.node.pin(self._cid(), self._seconds())
        return json.dumps({"Pins": [str(self._cid())]}).encode()

    def pin_rm(self) -> bytes:
        self.node.unpin(self._cid())
        return json.dumps({"Pins": [str(self._cid())]}).encode()

    def pin_ls(self) -> bytes:
        text = str(self._cid())
        if text not in self.node.pins():
            raise Refusal(f"path '{text}' is not pinned")
        return json.dumps({"Keys": {text: {"Type": "recursive"}}}).encode()

    def repo_gc(self) -> bytes:
        return b"".join(json.dumps({"Key": {"/": text}}).encode() + b"\n" for text in self.node.collect_garbage())

    def add(self) -> bytes:
        if self.options.get("only-hash") != "true":
            raise Refusal("add: only supported with only-hash; publish with dag/import")
        return json.dumps({"Name": "", "Hash": self.node.name_file(self._file())}).encode()

    def cat(self) -> bytes:
        return self.node.read_file(self._cid(), self._seconds())

    def _cid(self) -> CID:
        try:
            return CID.parse(self.options.get("arg", ""))
        except InvalidContent as fault:
            raise Refusal(f"invalid path: {fault}") from None

    def _peer(self) -> str:
        address = self.options.get("arg", "")
        if not PEER.match(address):
            raise Refusal(f"invalid p2p multiaddr {address[:80]!r}: this node accepts only peers on loopback")
        return address

    def _seconds(self) -> float:
        if self.options.get("offline") == "true":
            return 0.0
        text = self.options.get("timeout")
        if text is None:
            return _DEFAULT_SECONDS
        milliseconds = _MILLISECONDS.match(text)
        if not milliseconds:
            raise Refusal(f"invalid timeout {text[:20]!r}: give milliseconds (500ms, for example)")
        return min(int(milliseconds[1]) / 1000, _MAX_SECONDS)

    def _file(self) -> bytes:
        """Return the one file of a multipart/form-data body."""
        body = b"".join(self._body())
        boundary = b"--" + self.headers.get_boundary("").encode()
        start, end = body.find(b"\r\n\r\n"), body.rfind(b"\r\n" + boundary)
        if not body.startswith(boundary) or not 0 < start < end:
            raise Refusal("file argument is missing")
        return body[start + 4 : end]

    def _body(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding") != "chunked":
            yield self.rfile.read(min(int(self.headers.get("Content-Length", 0)), MAX_ARCHIVE_BYTES))
            return
        total = 0
        while length := int(self.rfile.readline(20), 16):
            total += length
            if total > MAX_ARCHIVE_BYTES:
                raise Refusal("the file is too large")
            yield self.rfile.read(length)
            self.rfile.readline(2)

    def _refuse(self, reason: str) -> None:
        self._send(500, json.dumps({"Message": reason, "Code": 0, "Type": "error"}).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ANSWERS = {
    "version": Handler.version,
    "id": Handler.identity,
    "swarm/connect": Handler.swarm_connect,
    "swarm/peering/add": Handler.swarm_peering_add,
    "swarm/peers": Handler.swarm_peers,
    "block/get": Handler.block_get,
    "block/stat": Handler.block_stat,
    "dag/import": Handler.dag_import,
    "pin/add": Handler.pin_add,
    "pin/rm": Handler.pin_rm,
    "pin/ls": Handler.pin_ls,
    "repo/gc": Handler.repo_gc,
    "add": Handler.add,
    "cat": Handler.cat,
}


class Server(ThreadingHTTPServer):
    """A thread per request, and a bounded number of them: a request too many is hung up on at once."""

    daemon_threads = True
    request_queue_size = _MAX_REQUESTS

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        super().__init__((host, port), Handler)
        self._free = threading.BoundedSemaphore(_MAX_REQUESTS)

    def process_request(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Log what went wrong in a line; clients that have gone are no error."""
        fault = sys.exc_info()[1]
        if not isinstance(fault, ConnectionError | TimeoutError):
            print(f"a request failed: {fault!r}", file=sys.stderr, flush=True)


def main(repo: Path, port: int, parent: int) -> None:
    """Serve on a port (0: a free one) until SIGINT, or until the process that started this one is gone."""
    stopped = threading.Event()
    Handler.node = Node(repo, port)
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    server = Server(port)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (repo / "api.new").write_text(f"/ip4/127.0.0.1/tcp/{server.server_address[1]}")
    (repo / "api.new").replace(repo / "api")
    while not stopped.is_set() and os.getppid() == parent:
        time.sleep(0.1)  # not one long wait: a signal that Go's threads receive does not end it
    (repo / "api").unlink(missing_ok=True)
    Handler.node.close()
    os._exit(0)  # calls into Kubo may still be waiting for blocks that never come


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
