"""Kubo nodes that are killed, lose their parent or find their repository in use."""

import os
import random
import secrets
import signal
import stat
import subprocess
import sys
import threading

import pytest
from kubo_nodes import needs_kubo, quiet, wait_until

from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.store import StoreError, Unreachable
from fedgrove.node.devnet.kubo import local_node
from fedgrove.node.devnet.kubo.local_node import LocalKubo

MIB = 1 << 20
pytestmark = quiet


class Load:
    """Threads that put blobs and read back what was acknowledged, with one store object, until stopped."""

    def __init__(self, store, writers=3):
        self.store, self.acknowledged, self.unreachable, self.faults = store, {}, 0, []
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(writers)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *fault):
        self._stopped.set()
        for thread in self._threads:
            thread.join(60)

    def _work(self, number):
        generator = random.Random(number)
        while not self._stopped.is_set():
            data = secrets.token_bytes(generator.choice([10, MIB // 2, 2 * MIB]))
            try:
                self.acknowledged[self.store.put(data)] = data
                cid = generator.choice(list(self.acknowledged))
                assert self.store.get(cid, 2 * MIB) == self.acknowledged[cid]
            except Unreachable:
                self.unreachable += 1
                self._stopped.wait(0.01)
            except BaseException as fault:
                self.faults.append(fault)
                raise


@needs_kubo
def test_a_node_killed_under_load_keeps_what_it_acknowledged(tmp_path):
    with LocalKubo(tmp_path) as first:
        port = int(first.url.rsplit(":", 1)[1])
    node = LocalKubo(tmp_path, port=port).__enter__()
    try:
        store = KuboStore(node.url, timeout=5.0)
        with Load(store) as load:
            for _ in range(3):
                before = len(load.acknowledged)
                wait_until(lambda before=before: len(load.acknowledged) >= before + 4 or load.faults)
                missed = load.unreachable
                os.kill(node.pid, signal.SIGKILL)
                wait_until(lambda missed=missed: load.unreachable >= missed + 3 or load.faults)
                node.stop()
                node.__enter__()
            before = len(load.acknowledged)
            wait_until(lambda: len(load.acknowledged) >= before + 4 or load.faults)
        assert not load.faults
        for cid, data in load.acknowledged.items():
            assert store.has(cid.digest)
            assert store.get(cid, len(data)) == data
        store.collect_garbage()
        assert all(store.has(cid.digest) for cid in load.acknowledged)
    finally:
        node.stop()


@needs_kubo
def test_a_repository_in_use_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(local_node, "_STOP_SECONDS", 0.2)
    with LocalKubo(tmp_path) as node:
        with pytest.raises(StoreError, match=f"another node runs on the repository {tmp_path}: stop it"):
            LocalKubo(tmp_path).__enter__()
        assert KuboStore(node.url).put(b"still there")


_PARENT = """
import sys, time
from fedgrove.node.devnet.kubo.local_node import LocalKubo
node = LocalKubo(sys.argv[1]).__enter__()
print(node.pid, node.url, flush=True)
time.sleep(600)
"""


def start_parent(repo):
    """Start a node in a process of its own and kill that process; return the node's process id and URL."""
    command = [sys.executable, "-c", _PARENT, str(repo)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        pid, url = parent.stdout.readline().split()
        parent.kill()
    return int(pid), url


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"  # an orphan's new parent may be slow to reap it
    except FileNotFoundError:
        return False


@needs_kubo
def test_a_node_dies_with_its_parent_and_another_takes_over_its_repository(tmp_path):
    pid, _ = start_parent(tmp_path)
    with LocalKubo(tmp_path) as node:
        assert KuboStore(node.url).put(b"x")
        assert not runs(pid)


_PROGRAM = """#!/bin/sh
[ $1 = init ] && echo '{"Addresses": {}, "Datastore": {}}' > $IPFS_PATH/config && exit
exec PYTHON -c '
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(200)
        self.end_headers()
server = HTTPServer(("127.0.0.1", 0), Handler)
open(os.environ["IPFS_PATH"] + "/api", "w").write("/ip4/127.0.0.1/tcp/%d" % server.server_address[1])
server.serve_forever()'
"""


def test_kubos_own_program_dies_with_its_parent(tmp_path, monkeypatch):
    program = tmp_path / "ipfs"
    program.write_text(_PROGRAM.replace("PYTHON", sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("FEDGROVE_KUBO", str(program))
    pid, _ = start_parent(tmp_path / "repo")
    wait_until(lambda: not runs(pid))
