"""A small archive that unfolds to more than its auditor's machine holds.

Who attacks: whoever hands out a CAR file of ``fedgrove audit export``, and a member that records the digest of a blob.
A node of UnixFS may link one leaf thousands of times, so a megabyte describes gigabytes, and three blocks a terabyte;
and a megabyte of tiny blocks would become tens of thousands of files. They want the auditor's memory, disk or time.

What stops it: archives are read where they lie; the history at their root is streamed and cannot have more bytes than
the archive; no other blob unfolds to more than a small multiple of what the archive holds.
"""

import os
from hashlib import sha256
from types import SimpleNamespace

import pytest

from fedgrove.chain.records import Committed
from fedgrove.common.errors import InvalidInput
from fedgrove.ipfs import car
from fedgrove.ipfs.car_reader import CarReader
from fedgrove.ipfs.cid import CID, DAG_PB, RAW
from fedgrove.ipfs.disk import DiskReader, DiskStore
from fedgrove.ipfs.store import TooLarge
from fedgrove.ipfs.unixfs import UNIXFS_V1_2025, DagBlock, Link, build, encode_node
from fedgrove.node.audit.archive import MAX_CAR_BYTES, audit_car, export_car
from fedgrove.node.status.report import upload_bytes
from tests.adversary.bounded import HANGS, TOO_MUCH, bounded

LEAF = os.urandom(1 << 20)
TIMES = 5000
GIBIBYTES = 4 << 30
MOST_LINKS = UNIXFS_V1_2025.max_links


def repeated(times: int = TIMES) -> list[DagBlock]:
    """The distinct blocks of a file that repeats one leaf, the root last; the leaf is hashed once."""
    blocks = [DagBlock(CID.of_block(LEAF, RAW), LEAF)]
    links = [Link(blocks[0].cid, len(LEAF), len(LEAF))] * times
    while len(links) > 1:
        level = [links[at : at + MOST_LINKS] for at in range(0, len(links), MOST_LINKS)]
        links = [_node(part, blocks) for part in level]
    return list({block.cid: block for block in blocks}.values())


def _node(links: list[Link], blocks: list[DagBlock]) -> Link:
    """A link to a new node with these links, which is added to the blocks."""
    data = encode_node(links)
    blocks.append(DagBlock(CID.of_block(data, DAG_PB), data))
    size, total = (sum(getattr(link, name) for link in links) for name in ("size", "total_size"))
    return Link(blocks[-1].cid, size, len(data) + total)


def terabyte() -> list[DagBlock]:
    """A leaf, and two nodes that describe a file of a terabyte."""
    blocks = [DagBlock(CID.of_block(LEAF, RAW), LEAF)]
    link = Link(blocks[0].cid, len(LEAF), len(LEAF))
    for times in (MOST_LINKS, MOST_LINKS):
        link = _node([link] * times, blocks)
    return blocks


def archive(path, blocks, root=None):
    path.write_bytes(b"".join(car.write(root or blocks[-1].cid, blocks)))
    return path


@pytest.mark.parametrize("blocks", [repeated, terabyte])
def test_a_root_that_repeats_one_leaf_is_a_bad_archive(tmp_path, blocks):
    path = archive(tmp_path / "bomb.car", blocks())
    assert path.stat().st_size < 1_300_000
    verdict = bounded(lambda: audit_car(path), mebibytes=256)
    assert verdict.exit_code == 1 and verdict.first_bad_record.field == "archive"
    assert "are allowed" in verdict.reason


def test_no_other_blob_of_an_archive_unfolds_without_bound(tmp_path):
    blocks = repeated()
    path = archive(tmp_path / "bomb.car", blocks)
    with path.open("rb") as stream:
        reader = CarReader(stream, MAX_CAR_BYTES)
        told = bounded(lambda: reader.fetch(blocks[-1].cid.digest, GIBIBYTES * 2), mebibytes=256)
    assert told.kind is TooLarge


def test_nor_one_of_a_run_directory(tmp_path):
    blocks = repeated()
    DiskStore(tmp_path / "store").add_blocks(blocks)
    told = bounded(lambda: DiskReader(tmp_path / "store").fetch(blocks[-1].cid.digest, GIBIBYTES * 2), mebibytes=256)
    assert told.kind is TooLarge


def test_sparse_files_do_not_widen_the_bound(tmp_path):
    """What a directory seems to hold is no measure: empty room on the disk costs nothing."""
    blocks = repeated()
    DiskStore(tmp_path / "store").add_blocks(blocks)
    with (tmp_path / "store" / "blocks" / ("ab" * 32)).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TooLarge):
        DiskReader(tmp_path / "store").fetch(blocks[-1].cid.digest, GIBIBYTES * 2)


def test_content_that_repeats_within_the_bound_is_read(tmp_path):
    """A model of zeros is one leaf, too."""
    blocks = repeated(20)
    assert blocks[-1] == list(build([LEAF] * 20))[-1]
    path = archive(tmp_path / "zeros.car", blocks)
    with path.open("rb") as stream:
        read = CarReader(stream, MAX_CAR_BYTES).fetch(blocks[-1].cid.digest, GIBIBYTES)
    assert sha256(read).digest() == sha256(LEAF * 20).digest()


def test_a_megabyte_of_tiny_blocks_becomes_no_files(tmp_path, monkeypatch):
    def refused(*names):
        raise AssertionError(f"a block became the file {names[-1]}")

    monkeypatch.setattr(os, "replace", refused)
    pieces = (number.to_bytes(4) for number in range(25_000))
    path = archive(tmp_path / "dust.car", [DagBlock(CID.of_block(piece, RAW), piece) for piece in pieces])
    verdict = bounded(lambda: audit_car(path), seconds=20, mebibytes=128)
    assert verdict.exit_code == 1 and verdict.first_bad_record.field == "ledger"


def test_more_blocks_than_any_archive_has_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("fedgrove.ipfs.car_reader.MAX_BLOCKS", 10)
    pieces = (number.to_bytes(4) for number in range(11))
    path = archive(tmp_path / "dust.car", [DagBlock(CID.of_block(piece, RAW), piece) for piece in pieces])
    assert "more than the 10 blocks" in audit_car(path).reason


@pytest.mark.parametrize("path", ["/dev/zero", "pipe", "folder"])
def test_a_path_that_is_no_file_is_one_sentence(tmp_path, path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    told = bounded(lambda: audit_car(tmp_path / path), seconds=10, mebibytes=128)
    assert told.kind is InvalidInput and "regular file" in told.message


def test_an_honest_archive_is_verified_where_it_lies(run, tmp_path):
    export_car(run.directory, tmp_path / "run.car")
    assert bounded(lambda: audit_car(tmp_path / "run.car"), seconds=120).verdict == "verified"


def bomb_of_a_member(tmp_path):
    """What a member committed to, and the store that it published it in."""
    store = DiskStore(tmp_path / "store")
    store.add_blocks(terabyte())
    committed = SimpleNamespace(client=1, digest=terabyte()[-1].cid.digest, BLOBS=Committed.BLOBS)
    return SimpleNamespace(of_members=lambda: [committed]), store


def test_a_terabyte_that_a_member_records_does_not_hold_up_the_report(tmp_path):
    each, store = bomb_of_a_member(tmp_path)
    assert bounded(lambda: upload_bytes(each, store), seconds=5) == {}


# --- the attack wins where the mend is taken out ----------------------------------------------------------------------


@pytest.mark.mutants
def test_without_the_bounds_a_megabyte_takes_gigabytes(tmp_path, monkeypatch):
    blocks = repeated()
    path = archive(tmp_path / "bomb.car", blocks)
    monkeypatch.setattr("fedgrove.ipfs.car_reader.most_unfolded", lambda held: None)
    with path.open("rb") as stream:
        reader = CarReader(stream, MAX_CAR_BYTES)
        assert bounded(lambda: len(reader.fetch(blocks[-1].cid.digest, GIBIBYTES * 2)), mebibytes=256) == TOO_MUCH


@pytest.mark.mutants
def test_without_the_bound_on_the_root_a_megabyte_takes_the_disk(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr("fedgrove.ipfs.car_reader.most_unfolded", lambda held: None)
    real = CarReader.stream

    def unbounded(self, digest, max_bytes):
        for piece in real(self, digest, MAX_CAR_BYTES):
            written.append(len(piece))
            yield piece[:1]  # so that the disk of whoever runs this is spared

    monkeypatch.setattr(CarReader, "stream", unbounded)
    audit_car(archive(tmp_path / "bomb.car", repeated()))
    assert sum(written) == TIMES * len(LEAF)


@pytest.mark.mutants
def test_without_the_bound_on_what_is_counted_a_report_never_ends(tmp_path, monkeypatch):
    each, store = bomb_of_a_member(tmp_path)
    counted = lambda self, digest, limit: SimpleNamespace(size=sum(map(len, self.stream(digest, 1 << 40))))  # noqa: E731
    monkeypatch.setattr(DiskStore, "root", counted)
    assert bounded(lambda: upload_bytes(each, store), seconds=5) == HANGS
