import hashlib
import io
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fedgrove.ipfs import car, disk
from fedgrove.ipfs.cid import CID, DAG_PB, RAW
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import Corrupt, NotFound, QuotaExceeded, StoreError, TooLarge
from fedgrove.ipfs.unixfs import DagBlock, Link, Profile, build, chunks, cid_of, decode_root, encode_node

MIB = 1 << 20
BIG = random.Random(1).randbytes(2 * MIB + 17)  # three leaves and a root


@pytest.fixture
def store(tmp_path):
    return DiskStore(tmp_path / "store")


class TinyStore(DiskStore):
    """Chunks of 256 bytes and 3 links a node, so that small content makes trees of many levels."""

    profile = Profile(chunk_size=256, max_links=3)


def block_path(store, digest):
    return store.path / "blocks" / digest.hex()


def files(store):
    return sorted(path.relative_to(store.path) for path in store.path.rglob("*") if path.is_file())


@pytest.mark.parametrize("data", [b"", b"x", bytes(MIB), bytes(MIB + 1), BIG], ids=len)
def test_what_is_put_comes_back_under_the_cid_of_ipfs(store, data):
    cid = store.put(data)
    assert cid == cid_of(data)
    assert store.get(cid, len(data)) == data
    assert store.fetch(cid.digest, len(data)) == data
    assert b"".join(store.stream(cid.digest, len(data))) == data
    assert store.has(cid.digest)


def test_trees_of_many_levels_come_back(tmp_path):
    store = TinyStore(tmp_path)
    for size in (0, 256, 257, 256 * 3, 256 * 3 + 1, 256 * 9, 256 * 9 + 1, 256 * 27 + 1, 30000):
        data = random.Random(size).randbytes(size)
        cid = store.put(data)
        assert store.fetch(cid.digest, size) == data
        assert store.has(cid.digest)


def test_a_bare_digest_is_read_by_the_codec_rule(store):
    small, big = store.put(b"small"), store.put(BIG)
    assert (small.codec, big.codec) == (RAW, DAG_PB)
    with pytest.raises(Corrupt, match=str(small)):
        store.get(CID.from_digest(small.digest, DAG_PB), 100)
    with pytest.raises(Corrupt, match=str(big)):
        store.get(CID.from_digest(big.digest, RAW), len(BIG))


def test_content_that_would_be_misread_is_refused(store):
    root = bytes(list(build(chunks(BIG)))[-1].data)
    assert decode_root(root) is not None
    with pytest.raises(StoreError, match="cannot be stored as content"):
        store.put(root)
    assert files(store) == []


@pytest.mark.parametrize("size", [0, 5, MIB, 2 * MIB + 17])
def test_content_in_pieces_is_the_content_and_pinned(store, size):
    cid = store.add(iter(chunks(BIG[:size])))
    assert cid == cid_of(BIG[:size])
    assert store.collect_garbage() == 0 and store.get(cid, size) == BIG[:size]


def test_content_in_pieces_that_is_itself_a_root_is_refused(store):
    *_, root = build(chunks(BIG))
    with pytest.raises(StoreError):
        store.add([bytes(root.data)])


def test_the_same_content_twice_changes_nothing(store):
    store.put(BIG)
    before = {path: os.stat(store.path / path).st_mtime_ns for path in files(store)}
    store.put(bytearray(BIG))
    assert {path: os.stat(store.path / path).st_mtime_ns for path in files(store)} == before


def test_equal_chunks_are_held_once(store):
    store.put(bytes(5 * MIB))
    assert len(list((store.path / "blocks").iterdir())) == 2
    assert store.used_bytes() < 2 * MIB


@pytest.mark.parametrize("data", [b"small", BIG], ids=len)
def test_one_flipped_bit_in_any_block_is_an_error_that_names_it(store, data):
    cid = store.put(data)
    for block in build(chunks(data)):
        path = block_path(store, block.cid.digest)
        good = path.read_bytes()
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        with pytest.raises(Corrupt, match=f"{block.cid}.*damaged") as caught:
            store.get(cid, len(data))
        assert caught.value.cid == block.cid
        store.put(data)  # storing the content again repairs it
        assert path.read_bytes() == good


def test_cut_and_grown_blocks_are_errors(store):
    cid = store.put(BIG)
    path = block_path(store, next(build(chunks(BIG))).cid.digest)
    good = path.read_bytes()
    for bad in (b"", good[:-1], good + b"\0"):
        path.write_bytes(bad)
        with pytest.raises(Corrupt):
            store.get(cid, len(BIG))


def test_missing_content_and_missing_leaves(store):
    absent = cid_of(b"absent")
    assert not store.has(absent.digest)
    for read in (
        lambda: store.get(absent, 10),
        lambda: store.fetch(absent.digest, 10),
        lambda: store.pin(absent.digest),
    ):
        with pytest.raises(NotFound, match=str(absent)):
            read()
    cid = store.put(BIG)
    leaf = next(build(chunks(BIG))).cid
    block_path(store, leaf.digest).unlink()
    assert not store.has(cid.digest)
    with pytest.raises(NotFound, match=str(leaf)):
        store.get(cid, len(BIG))


def test_size_is_bounded_before_parts_are_fetched(store):
    cid = store.put(BIG)
    block_path(store, next(build(chunks(BIG))).cid.digest).unlink()
    with pytest.raises(TooLarge, match=str(cid)):
        store.stream(cid.digest, len(BIG) - 1)  # raised by the call, not by the first part
    with pytest.raises(TooLarge):
        store.fetch(cid.digest, 10)
    with pytest.raises(TooLarge):
        store.fetch(store.put(b"0123456789").digest, 9)


def test_only_bytes_that_hash_to_their_name_are_too_large(store):
    """Whoever keeps a store could otherwise have the member named whose blob it enlarged."""
    digest = store.put(b"0123456789").digest
    block_path(store, digest).write_bytes(bytes(11))
    with pytest.raises(Corrupt):
        store.fetch(digest, 10)


def test_hostile_tree_of_repeated_parts_costs_no_more_than_its_blocks(tmp_path):
    """Seven small blocks that describe a file of 256 * 3**6 bytes; with real sizes this would be an exabyte."""
    store = TinyStore(tmp_path)
    data = bytes(256 * 3**6)
    digest = store.put(data).digest
    assert len(list((tmp_path / "blocks").iterdir())) == 7
    reads = []
    store._read_block = lambda cid, limit: reads.append(cid) or DiskStore._read_block(store, cid, limit)
    assert store.has(digest)
    assert len(reads) == 6
    with pytest.raises(TooLarge):
        store.stream(digest, len(data) - 1)


def plant(store, data):
    """Put a block into the folder, as a hostile copy of a store would hold it; return its digest."""
    digest = hashlib.sha256(data).digest()
    block_path(store, digest).write_bytes(data)
    return digest


@pytest.mark.parametrize("inner", [b"", b"raw content", encode_node([])], ids=["empty", "raw", "no links"])
def test_an_inner_node_that_is_no_node_is_an_error(tmp_path, inner):
    store = TinyStore(tmp_path)
    good = [
        DagBlock(block.cid, bytes(block.data)) for block in build(chunks(bytes(1000), store.profile), store.profile)
    ]
    digest = store.put(bytes(1000)).digest
    links = decode_root(good[-1].data, store.profile)
    bad = CID.from_digest(plant(store, inner), DAG_PB)
    root = plant(store, encode_node([links[0], Link(bad, links[1].size, links[1].total_size)]))
    assert store.fetch(digest, 1000) == bytes(1000)
    for read in (lambda: store.fetch(root, 1000), lambda: store.has(root), lambda: store.pin(root)):
        with pytest.raises(Corrupt, match=str(bad)):
            read()


def test_a_blob_is_available_only_as_a_whole_within_its_bound_and_well_formed(tmp_path):
    store = TinyStore(tmp_path)
    data = random.Random(1).randbytes(256 * 9 + 1)
    digest = store.put(data).digest
    assert store.available(digest) and store.available(digest, len(data))
    assert not store.available(digest, len(data) - 1)
    first, *others = decode_root(block_path(store, digest).read_bytes(), store.profile)
    bad = CID.from_digest(plant(store, b"cannot have a node"), DAG_PB)
    hostile = plant(store, encode_node([Link(bad, first.size, first.total_size), *others]))
    assert not store.available(hostile)
    with pytest.raises(Corrupt, match=str(bad)):
        store.has(hostile)
    block_path(store, next(build(chunks(data, store.profile), store.profile)).cid.digest).unlink()
    assert not store.available(digest)
    assert not store.available(bytes(32))


def test_garbage_collection_removes_exactly_what_no_pin_needs(store):
    shared = BIG[:MIB]
    kept, dropped, pinned_again = store.put(BIG), store.put(shared + b"other"), store.put(b"again")
    store.unpin(dropped.digest)
    store.unpin(pinned_again.digest)
    store.pin(pinned_again.digest)
    (store.path / "blocks" / "README").write_text("not a block")
    (store.path / "temp" / "left by a killed process").write_text("x")
    assert store.collect_garbage() == 2  # the other root and its second leaf; the first leaf is shared
    assert store.get(kept, len(BIG)) == BIG
    assert store.get(pinned_again, 5) == b"again"
    assert not store.has(dropped.digest)
    assert (store.path / "blocks" / "README").exists()
    assert list((store.path / "temp").iterdir()) == []
    store.unpin(dropped.digest)  # a second time: no effect
    assert store.collect_garbage() == 0


def test_garbage_collection_removes_nothing_when_a_pinned_node_is_damaged(store):
    cid = store.put(BIG)
    store.unpin(store.put(b"garbage").digest)
    before = files(store)
    path = block_path(store, cid.digest)
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"\xff")
    with pytest.raises(Corrupt):
        store.collect_garbage()
    assert files(store) == before


def test_quota_is_checked_before_anything_is_written(tmp_path):
    store = DiskStore(tmp_path, quota_bytes=1000)
    first = store.put(bytes(600))
    before = files(store)
    with pytest.raises(QuotaExceeded, match=r"401 more bytes exceed the quota.*600 of 1000"):
        store.put(b"x" * 401)
    assert files(store) == before
    store.put(bytes(600))
    store.put(b"y" * 400)
    store.unpin(first.digest)
    store.collect_garbage()
    store.put(b"x" * 401)


def test_writers_that_race_for_the_quota_never_exceed_it(tmp_path):
    quota, kept, refused = 10 * MIB, [], []

    def write(number):
        own = DiskStore(tmp_path, quota)
        for turn in range(4):
            data = random.Random(number * 100 + turn).randbytes(MIB + 100)
            try:
                kept.append((own.put(data), data))
            except QuotaExceeded:
                refused.append(cid_of(data))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    store = DiskStore(tmp_path, quota)
    assert (len(kept), len(refused)) == (9, 7)  # ten would need 1,000 bytes and their roots more than there are
    assert store.used_bytes() <= quota
    assert all(store.get(cid, 2 * MIB) == data for cid, data in kept)
    assert not any(store.has(cid.digest) for cid in refused)
    assert store.collect_garbage() == 0  # nothing half-written
    assert list((tmp_path / "temp").iterdir()) == []


def test_a_failing_disk_is_one_sentence_and_leaves_nothing(store, monkeypatch):
    def no_space(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk.os, "fsync", no_space)
    with pytest.raises(StoreError, match=r"cannot be used: No space left on device"):
        store.put(BIG)
    assert files(store) == [Path("lock")]


def test_a_path_that_cannot_be_a_folder_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be used"):
        DiskStore(tmp_path / "file")


def test_a_lock_held_too_long_is_one_sentence(store, monkeypatch):
    monkeypatch.setattr(disk, "_LOCK_SECONDS", 0.02)
    with store._changes(), pytest.raises(StoreError, match="another process"):
        DiskStore(store.path).put(b"x")


def test_puts_and_collections_of_several_threads_lose_nothing(tmp_path):
    """Every thread puts, unpins every other blob and collects garbage; every blob still pinned is whole."""
    faults = []

    def work(number):
        try:
            own = DiskStore(tmp_path)
            for turn in range(6):
                data = random.Random(number * 100 + turn).randbytes(1000)
                cid = own.put(data)
                assert own.get(cid, 1000) == data
                if turn % 2:
                    own.unpin(cid.digest)
                own.collect_garbage()
        except BaseException as fault:
            faults.append(fault)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not faults
    assert len(list((tmp_path / "blocks").iterdir())) == 4 * 3


def _put_same(path, queue):
    queue.put(str(DiskStore(path).put(BIG)))


def test_processes_that_put_the_same_content_agree(tmp_path):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_put_same, args=(tmp_path, queue)) for _ in range(3)]
    for worker in workers:
        worker.start()
    assert {queue.get(timeout=30) for _ in workers} == {str(cid_of(BIG))}
    for worker in workers:
        worker.join(30)
    assert DiskStore(tmp_path).get(cid_of(BIG), len(BIG)) == BIG


_WRITER = """
import itertools, random, sys
from fedgrove.ipfs.disk import DiskStore
store = DiskStore(sys.argv[1])
for number in itertools.count():
    store.put(random.Random(number).randbytes(3 << 20))
    print("ready", flush=True)
"""


def test_a_killed_writer_leaves_no_partial_block_and_no_root_without_leaves(tmp_path):
    for delay in (0.03, 0.08, 0.15):
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        writer.wait(10)
        writer.stdout.close()
    store = DiskStore(tmp_path)
    whole = 0
    for path in (tmp_path / "blocks").iterdir():
        digest = bytes.fromhex(path.name)
        assert store.has(digest)
        whole += len(store.fetch(digest, 3 * MIB)) == 3 * MIB
    assert whole >= 1
    store.collect_garbage()
    assert list((tmp_path / "temp").iterdir()) == []
    for pin in (tmp_path / "pins").iterdir():
        assert len(store.fetch(bytes.fromhex(pin.name), 3 * MIB)) == 3 * MIB


def test_an_export_archives_every_pinned_blob_and_another_store_reads_it(tmp_path):
    source, target = DiskStore(tmp_path / "source"), DiskStore(tmp_path / "target")
    blobs = [b"small", BIG, b"unpinned"]
    cids = [source.put(blob) for blob in blobs]
    source.unpin(cids[2].digest)
    archive = b"".join(car.write(cids[0], source.export()))
    target.add_blocks(car.read(io.BytesIO(archive), 1 << 24).blocks)
    assert [target.get(cid, 1 << 22) for cid in cids[:2]] == blobs[:2]
    assert not target.has(cids[2].digest)
    assert target.collect_garbage() == 5  # nothing was pinned: one small block, three leaves and their root


def test_an_export_names_a_damaged_block(tmp_path):
    store = DiskStore(tmp_path)
    cid = store.put(b"content")
    (tmp_path / "blocks" / cid.digest.hex()).write_bytes(b"another")
    with pytest.raises(Corrupt, match=str(cid)):
        list(store.export())


def test_added_blocks_respect_the_quota(tmp_path):
    with pytest.raises(QuotaExceeded):
        DiskStore(tmp_path, quota_bytes=10).add_blocks(build([b"more than ten bytes"]))
