"""Blobs that an attacker publishes, read on disk and on a real Kubo node that gets them from the attacker's node."""

import base64
import random
import secrets
import tracemalloc

import pytest
from kubo_nodes import asked, needs_kubo, quiet, wait_for_peers

from fedgrove.ipfs import car
from fedgrove.ipfs.cid import CID, DAG_PB, RAW
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.store import Corrupt, NotFound, TooLarge
from fedgrove.ipfs.unixfs import DagBlock, Link, Profile, build, chunks, decode_root, encode_node
from fedgrove.node.devnet.kubo.local_node import LocalKubo

MIB = 1 << 20
TINY = Profile(chunk_size=256, max_links=3)
pytestmark = quiet


class TinyDisk(DiskStore):
    profile = TINY


class TinyKubo(KuboStore):
    profile = TINY


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with (
        LocalKubo(tmp_path_factory.mktemp("attacker")) as attacker,
        LocalKubo(tmp_path_factory.mktemp("victim"), swarm_key=attacker.swarm_key, peers=attacker.addresses) as victim,
    ):
        wait_for_peers(attacker, victim)
        yield attacker, victim


@pytest.fixture(params=["disk", pytest.param("kubo", marks=needs_kubo)])
def place(request, tmp_path):
    """A store to read from, and a way to get any block into it, or into a node that its node knows."""
    if request.param == "disk":
        store = TinyDisk(tmp_path)
        yield store, lambda data: store.add_blocks([DagBlock(CID.of_block(data, RAW), data)])
        return
    attacker, victim = request.getfixturevalue("nodes")

    def publish(data):
        name = CID.of_block(data, RAW)  # under a raw name, so that Kubo does not judge its links
        asked(attacker, "dag/import", file=b"".join(car.write(name, [DagBlock(name, data)])))

    yield TinyKubo(victim.url, timeout=30.0), publish


def publish_all(publish, blocks):
    for block in blocks:
        publish(bytes(block.data))
    return blocks[-1].cid


def blocks_of(data):
    return list({block.cid: block for block in build(chunks(data, TINY), TINY)}.values())


def replaced(root, child):
    """The canonical root of the same size, with another first child."""
    first, *others = decode_root(bytes(root.data), TINY)
    data = encode_node([Link(CID.from_digest(child.digest, first.cid.codec), first.size, first.total_size), *others])
    return DagBlock(CID.of_block(data, DAG_PB), data)


def assert_refused(store, digest, size, error, culprit):
    with pytest.raises(error, match=str(culprit)):
        store.fetch(digest, size)
    with pytest.raises(error, match=str(culprit)):
        for piece in store.stream(digest, size):
            assert len(piece) <= MIB


def test_honest_content_comes_back(place):
    store, publish = place
    data = secrets.token_bytes(256 * 27 + 1)
    cid = publish_all(publish, blocks_of(data))
    assert store.available(cid.digest, len(data))
    assert store.fetch(cid.digest, len(data)) == data


def test_a_few_blocks_that_claim_an_endless_file_are_too_large(place):
    store, publish = place
    size = 256 * 3**20  # 21 blocks
    leaf = bytes(256)
    links, blocks = [Link(CID.of_block(leaf, RAW), 256, 256)] * 3, [leaf]
    for _ in range(20):
        node = encode_node(links)
        blocks.append(node)
        total = len(node) + sum(link.total_size for link in links)
        below = Link(CID.of_block(node, DAG_PB), sum(link.size for link in links), total)
        links = [below] * 3
    for block in blocks:
        publish(block)
    root = CID.of_block(blocks[-1], DAG_PB)
    with pytest.raises(TooLarge, match=f"{root}.*{size} bytes"):
        store.stream(root.digest, MIB)
    assert not store.available(root.digest, MIB)
    assert store.available(root.digest)  # costs its 21 blocks, not its size
    assert next(store.stream(root.digest, size)) == leaf


@pytest.mark.parametrize("links", [4, 1000, 20_000])
def test_a_node_of_too_many_links_is_no_node(place, links):
    store, publish = place
    crowded = encode_node([Link(CID.of_block(secrets.token_bytes(8), RAW), 256, 256)] * links)[:MIB]
    *parts, root = blocks_of(secrets.token_bytes(2000))
    bad = replaced(root, CID.of_block(crowded, DAG_PB))
    publish_all(publish, [*parts, DagBlock(CID.of_block(crowded, RAW), crowded), bad])
    assert_refused(store, bad.cid.digest, 2000, Corrupt, CID.of_block(crowded, DAG_PB))
    assert not store.available(bad.cid.digest)
    # As a root it is content like any other, of its own size: nobody follows its links.
    digest = CID.of_block(crowded, RAW).digest
    assert store.fetch(digest, MIB) == crowded


@pytest.mark.parametrize("length", [0, 1, 255, 257, MIB], ids=str)
def test_a_leaf_of_another_size_than_its_parent_says_is_corrupt(place, length):
    store, publish = place
    leaf = random.Random(length).randbytes(length)
    *parts, root = blocks_of(secrets.token_bytes(700))
    bad = replaced(root, CID.of_block(leaf, RAW))
    publish_all(publish, [*parts, DagBlock(CID.of_block(leaf, RAW), leaf), bad])
    assert_refused(store, bad.cid.digest, 700, Corrupt, CID.of_block(leaf, RAW))


def test_a_node_at_the_depth_of_another_is_corrupt(place):
    """A tree that goes deeper than its size says: a child that is the root of a larger file."""
    store, publish = place
    deeper = blocks_of(secrets.token_bytes(256 * 9))
    *parts, root = blocks_of(secrets.token_bytes(2000))
    bad = replaced(root, deeper[-1].cid)
    publish_all(publish, [*parts, *deeper, bad])
    assert_refused(store, bad.cid.digest, 2000, Corrupt, deeper[-1].cid)
    assert not store.available(bad.cid.digest)


def test_a_block_larger_than_any_block_is_refused(place, request):
    """No import takes it, but a node of an attacker's making may serve it."""
    store, _ = place
    huge = secrets.token_bytes(MIB + 1)
    cid = CID.of_block(huge, RAW)
    if isinstance(store, DiskStore):
        (store.path / "blocks" / cid.digest.hex()).write_bytes(huge)
    else:
        key = base64.b32encode(bytes(cid)[2:]).decode().rstrip("=")
        path = request.getfixturevalue("nodes")[0].repo / "blocks" / key[-3:-1] / f"{key}.data"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(huge)
    with pytest.raises(Corrupt, match=str(cid)):
        store.fetch(cid.digest, 8 * MIB)
    assert not store.available(cid.digest)


def test_a_blob_of_which_a_part_is_withheld_is_not_available(place):
    store, publish = place
    first, *parts = blocks_of(secrets.token_bytes(1000))
    cid = publish_all(publish, parts)
    if isinstance(store, TinyKubo):
        store.timeout = 2.0  # this one is waited for in vain
    assert not store.available(cid.digest)
    assert not store.has(cid.digest)
    stream = store.stream(cid.digest, 1000)
    with pytest.raises(NotFound, match=str(first.cid)):
        list(stream)


@pytest.mark.parametrize("kind", ["disk", pytest.param("kubo", marks=needs_kubo)])
def test_streaming_holds_a_few_blocks_whatever_the_size(kind, request, tmp_path):
    size = 40 * MIB
    data = random.Random(1).randbytes(size)
    if kind == "disk":
        source = store = DiskStore(tmp_path)
    else:
        source, store = (KuboStore(node.url) for node in request.getfixturevalue("nodes"))
    digest = source.put(data).digest
    tracemalloc.start()
    try:
        total = sum(len(piece) for piece in store.stream(digest, size))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == size
    assert peak < 8 * MIB
