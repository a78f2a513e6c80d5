import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs import car
from fedgrove.ipfs.cid import CID, RAW
from fedgrove.ipfs.unixfs import MAX_BLOCK_BYTES, DagBlock, Profile, build, chunks, varint

TINY = Profile(chunk_size=4, max_links=3)
LIMIT = 1 << 24


def archive_of(data, profile=TINY):
    blocks = [DagBlock(block.cid, bytes(block.data)) for block in build(chunks(data, profile), profile)]
    return blocks, b"".join(car.write(blocks[-1].cid, blocks))


def read_all(data, limit=LIMIT):
    archive = car.read(io.BytesIO(data), limit)
    return archive.root, list(archive.blocks)


BLOCKS, ARCHIVE = archive_of(b"some content of several blocks")
HEADER = 59  # length byte and header


def section(block):
    return varint(36 + len(block.data)) + bytes(block.cid) + bytes(block.data)


@given(st.binary(max_size=300))
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read(data):
    blocks, archive = archive_of(data)
    assert read_all(archive) == (blocks[-1].cid, blocks)


def test_the_header_is_the_canonical_dag_cbor():
    cbor2 = pytest.importorskip("cbor2")
    root = BLOCKS[-1].cid
    assert ARCHIVE[0] == HEADER - 1
    header = cbor2.loads(ARCHIVE[1:HEADER])
    assert header["version"] == 1
    assert [tag.tag for tag in header["roots"]] == [42]
    assert header["roots"][0].value == b"\x00" + bytes(root)


def test_a_block_of_the_largest_size_passes():
    data = random.Random(3).randbytes(MAX_BLOCK_BYTES)
    block = DagBlock(CID.of_block(data, RAW), data)
    assert read_all(b"".join(car.write(block.cid, [block])))[1] == [block]


@given(st.integers(0, len(ARCHIVE) - 1))
def test_a_truncated_archive_is_refused_or_ends_at_a_block(length):
    try:
        _, blocks = read_all(ARCHIVE[:length])
    except InvalidContent:
        return
    assert length == HEADER + sum(len(section(block)) for block in blocks)
    assert blocks == BLOCKS[: len(blocks)]


@given(st.integers(0, len(ARCHIVE) - 1), st.integers(1, 255))
def test_a_changed_byte_never_gives_another_block(position, change):
    changed = bytearray(ARCHIVE)
    changed[position] ^= change
    try:
        root, blocks = read_all(bytes(changed))
    except InvalidContent:
        return
    # Only the name of the root, or the codec in the name of a block, can change and still be well formed.
    assert [block.cid.digest for block in blocks] == [block.cid.digest for block in BLOCKS]
    assert [block.data for block in blocks] == [block.data for block in BLOCKS]
    assert root != BLOCKS[-1].cid or [x.cid for x in blocks] != [x.cid for x in BLOCKS]


def test_a_block_under_a_wrong_cid_is_named():
    wrong = DagBlock(BLOCKS[0].cid, b"other")
    with pytest.raises(InvalidContent, match=f"{wrong.cid}.*does not match"):
        read_all(b"".join(car.write(BLOCKS[-1].cid, [wrong])))


def header(roots, version=1):
    tags = b"".join(b"\xd8\x2a\x58\x25\x00" + bytes(root) for root in roots)
    body = b"\xa2\x65roots" + bytes([0x80 + len(roots)]) + tags + b"\x67version" + bytes([version])
    return varint(len(body)) + body


def test_the_handmade_header_is_right():
    assert header([BLOCKS[-1].cid]) == ARCHIVE[:HEADER]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        header([]),
        header([BLOCKS[-1].cid, BLOCKS[0].cid]),
        header([BLOCKS[-1].cid], version=2),
        varint(1 << 62) + ARCHIVE[1:],
        b"\xff" * 20,
        b"\xba\x00" + ARCHIVE[1:],  # not the shortest form of the length
        ARCHIVE[:HEADER] + varint(1 << 62) + bytes(100),
        ARCHIVE[:HEADER] + varint(37 + MAX_BLOCK_BYTES) + bytes(100),
        ARCHIVE[:HEADER] + varint(35) + bytes(35),
        ARCHIVE[:HEADER] + varint(0),
        ARCHIVE[:HEADER] + b"\x80" * 12,
        ARCHIVE[:HEADER] + varint(36) + bytes(36),
    ],
)
def test_malformed_archives_are_refused(data):
    with pytest.raises(InvalidContent):
        read_all(data)


def test_the_sum_of_blocks_is_bounded():
    total = sum(len(block.data) for block in BLOCKS)
    assert read_all(ARCHIVE, total)[1] == BLOCKS
    with pytest.raises(InvalidContent, match="more than"):
        read_all(ARCHIVE, total - 1)
