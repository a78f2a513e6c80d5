"""Several real Kubo nodes in one private swarm: blocks go from node to node by Kubo's own Bitswap."""

import os
import secrets
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests
from kubo_nodes import connected, needs_kubo, needs_library, peer_id, quiet, wait_for_peers

from fedgrove.ipfs.cid import CID, RAW
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.store import NotFound, StoreError
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.devnet.kubo import library as kubo_library
from fedgrove.node.devnet.kubo.local_node import LocalKubo

MIB = 1 << 20
LIMIT = 8 * MIB
pytestmark = [quiet, needs_kubo]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two connected nodes; the second knows the first."""
    with (
        LocalKubo(tmp_path_factory.mktemp("a")) as first,
        LocalKubo(tmp_path_factory.mktemp("b"), swarm_key=first.swarm_key, peers=first.addresses) as second,
    ):
        wait_for_peers(first, second)
        yield first, second


@pytest.fixture
def stores(pair):
    return tuple(KuboStore(node.url, timeout=1.0) for node in pair)


def patient(store):
    """The store, for what must be found, however busy the machine is."""
    return KuboStore(store.url, timeout=60.0)


def blob(size):
    return secrets.token_bytes(size)


@pytest.mark.parametrize("size", [1, MIB, 5 * MIB + 3], ids=["byte", "block", "tree"])
def test_what_is_put_at_one_node_is_read_at_another(stores, size):
    here, there = stores
    data = blob(size)
    cid = here.put(data)
    assert not there.has(cid.digest)
    assert patient(there).get(cid, size) == data
    assert there.has(cid.digest)


def test_what_is_available_was_brought_here(stores):
    here, there = stores
    digest = here.put(blob(3 * MIB)).digest
    assert not there.available(digest, 3 * MIB - 1)
    assert not there.has(digest)
    assert patient(there).available(digest, 3 * MIB)
    assert there.has(digest)


def test_a_block_that_was_asked_for_before_it_was_imported_is_served(stores):
    """A client commits on the ledger before it publishes, so others ask too early; Kubo remembers what it missed."""
    here, there = stores
    data = blob(2 * MIB + 5)
    digest = cid_of(data).digest
    for store in (there, here, there):
        with pytest.raises(NotFound):
            store.fetch(digest, LIMIT)
        assert not store.available(digest)
    here.put(data)
    assert here.fetch(digest, LIMIT) == data
    assert patient(there).fetch(digest, LIMIT) == data


def test_a_reader_that_waits_gets_a_block_as_soon_as_it_is_imported(pair, stores):
    data = blob(100)
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(KuboStore(node.url, timeout=60).fetch, cid_of(data).digest, 100) for node in pair]
        with pytest.raises(NotFound):  # by then both nodes have asked each other
            stores[0].fetch(cid_of(data).digest, 100)
        stores[0].put(data)
        assert [reader.result(60) for reader in waiting] == [data, data]


def test_local_reads_ask_no_peer(stores):
    here, there = stores
    digest = here.put(b"x" * 1000 + blob(10)).digest
    for codec in (RAW, 0x70):
        assert not there._has_block(CID.from_digest(digest, codec))
    assert not there.has(digest)


def test_content_that_was_collected_and_put_again_is_served(stores):
    here, there = stores
    data = blob(MIB + 7)
    digest = here.put(data).digest
    here.unpin(digest)
    assert here.collect_garbage() >= 3
    assert not there.available(digest)
    here.put(data)
    assert patient(there).fetch(digest, LIMIT) == data


def test_pinning_brings_a_blob_from_a_peer_for_good(stores):
    here, there = stores
    data = blob(MIB + 9)
    digest = here.put(data).digest
    there.pin(digest)
    there.collect_garbage()
    here.unpin(digest)
    here.collect_garbage()
    assert not here.has(digest)
    assert patient(here).fetch(digest, LIMIT) == data


def test_every_socket_of_a_node_is_on_loopback(pair):
    inodes, addresses = set(), set()
    for descriptor in Path(f"/proc/{pair[0].pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(descriptor).removeprefix("socket:[").rstrip("]"))
        except FileNotFoundError:
            continue
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{pair[0].pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes:
                addresses.add((table, fields[1].split(":")[0]))
    assert addresses == {("tcp", "0100007F")}


def test_another_swarm_cannot_join(pair, tmp_path):
    with LocalKubo(tmp_path, swarm_key="ab" * 32, peers=pair[0].addresses) as stranger:
        asked = {"arg": pair[0].addresses[0]}
        assert not requests.post(f"{stranger.url}/api/v0/swarm/connect", params=asked, timeout=15).ok
        assert not connected(stranger) and peer_id(stranger) not in connected(pair[0])


@pytest.mark.parametrize("address", ["", "/ip4/10.0.0.1/tcp/1/p2p/" + "Q" * 46, "/ip4/127.0.0.1/tcp/1"])
def test_a_peer_that_is_not_a_local_node_is_one_sentence(tmp_path, address):
    with pytest.raises(StoreError, match="use one of its `addresses`"):
        LocalKubo(tmp_path, peers=[address])


def test_a_bad_swarm_key_is_one_sentence(tmp_path):
    with pytest.raises(StoreError, match="64 hexadecimal digits"):
        LocalKubo(tmp_path, swarm_key="secret")


def test_nodes_meet_in_any_order_and_meet_again_after_each_restart(tmp_path):
    """Also killed ones; nobody is told anything after the first start."""
    folders = [tmp_path / name for name in "abc"]
    key, addresses = secrets.token_hex(32), {}
    for folder in folders:  # learn where each of them will be
        with LocalKubo(folder, swarm_key=key) as node:
            addresses[folder] = node.addresses[0]
    nodes = [LocalKubo(folder, peers=list(addresses.values())) for folder in folders]
    for node in nodes:
        node.__enter__()
    try:
        wait_for_peers(*nodes)
        for victim, end in zip(nodes, (signal.SIGKILL, signal.SIGINT, signal.SIGKILL), strict=True):
            os.kill(victim.pid, end)
            victim._process.wait(10)
            victim.stop()
            victim.__enter__()
            assert victim.addresses == (addresses[victim.repo],)
            wait_for_peers(*nodes)
            data = blob(1000)
            others = [KuboStore(node.url, timeout=5.0) for node in nodes if node is not victim]
            digest = KuboStore(victim.url).put(data).digest
            assert [store.fetch(digest, 1000) for store in others] == [data, data]
    finally:
        for node in nodes:
            node.stop()


@needs_library
def test_any_number_of_missing_blocks_stops_nothing(pair):
    """The library waits for ever for every one of them."""
    here, there = pair
    random_digests = [secrets.token_bytes(32) for _ in range(4 * kubo_library._MAX_WAITING)]
    put, missed = threading.Event(), []

    def look(digest):
        store = KuboStore(there.url, timeout=0.5)
        if len(missed) > len(random_digests) // 2:
            put.set()
        missed.append(not store.available(digest))

    data = blob(2 * MIB)
    with ThreadPoolExecutor(24) as pool:
        looking = [pool.submit(look, digest) for digest in random_digests]
        assert put.wait(60)
        digest = KuboStore(here.url).put(data).digest  # in the middle of it
        found = KuboStore(there.url, timeout=60).fetch(digest, LIMIT)
        for result in looking:
            result.result(60)
    assert found == data
    assert all(missed) and len(missed) == len(random_digests)
    threads = len(list(Path(f"/proc/{there.pid}/task").iterdir()))
    assert threads < len(random_digests), "a thread was left behind for every missing block"
