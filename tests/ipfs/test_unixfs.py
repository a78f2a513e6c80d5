import aleph_cid
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubo_defaults import named_by_default
from kubo_random import deterministic_random

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.cid import CID, DAG_PB, RAW
from fedgrove.ipfs.unixfs import (
    UNIXFS_V1_2025,
    Link,
    Profile,
    build,
    chunks,
    cid_of,
    decode_node,
    decode_root,
    depth_of,
    encode_node,
    read_varint,
    root_of,
    varint,
)

MIB = 1 << 20
KIB = 1 << 10
TEST_CID_V1 = Profile(chunk_size=MIB, max_links=174)  # Kubo's profile test-cid-v1
KUBO_V1 = Profile(chunk_size=256 * KIB, max_links=174)  # `ipfs add --cid-version=1`
TINY = Profile(chunk_size=4, max_links=3)


# Published CIDs of Kubo's test suite: test/cli/cid_profiles_test.go (unixfs-v1-2025) and
# test/cli/add_test.go (test-cid-v1, test-cid-v1-wide); each pair is a full node and one chunk more.
@pytest.mark.parametrize(
    ("profile", "seed", "size", "expected"),
    [
        (TEST_CID_V1, "v1-seed", 174 * MIB, "bafybeigwduxcf2aawppv3isnfeshnimkyplvw3hthxjhr2bdeje4tdaicu"),
        (TEST_CID_V1, "v1-seed", 175 * MIB, "bafybeidhd7lo2n2v7lta5yamob3xwhbxcczmmtmhquwhjesi35jntf7mpu"),
        (UNIXFS_V1_2025, "v1-2025-seed", 1024 * MIB, "bafybeihmf37wcuvtx4hpu7he5zl5qaf2ineo2lqlfrapokkm5zzw7zyhvm"),
        (UNIXFS_V1_2025, "v1-2025-seed", 1025 * MIB, "bafybeihmzokxxjqwxjcryerhp5ezpcog2wcawfryb2xm64xiakgm4a5jue"),
    ],
)
def test_published_vectors_of_kubo(profile, seed, size, expected):
    assert str(root_of(deterministic_random(seed, size, profile.chunk_size), profile)) == expected


def test_published_vectors_of_kubo_for_hello_world():
    assert str(cid_of(b"hello world")) == "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e"


@pytest.mark.parametrize("size", [0, 1, 256 * KIB - 1, 256 * KIB, 256 * KIB + 1, 5 * MIB + 3, 175 * 256 * KIB])
def test_aleph_cid_names_files_the_same(size):
    data = b"".join(deterministic_random("oracle", size, MIB))
    hasher = aleph_cid.CidHasher.for_ipfs_v1_raw_leaves()
    hasher.update(data)
    assert str(cid_of(data, KUBO_V1)) == hasher.finalize()
    assert named_by_default(data) == aleph_cid.compute_cid(data)  # the oracle of tests with a real node


def test_empty_file_is_one_empty_raw_block():
    assert str(cid_of(b"")) == "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"
    with pytest.raises(ValueError, match="at least one chunk"):
        root_of([])


def test_tree_is_balanced_and_its_last_branch_is_not_collapsed():
    root = list(build(chunks(bytes(37), TINY), TINY))[-1]  # 10 chunks: 27 fit below three levels
    links = decode_root(bytes(root.data), TINY)
    assert [link.size for link in links] == [36, 1]
    assert depth_of(37, TINY) == 3


@given(st.binary(max_size=400))
@settings(max_examples=60, deadline=None)
def test_reading_the_dag_gives_the_file(data):
    blocks = list(build(chunks(data, TINY), TINY))
    held = {block.cid: bytes(block.data) for block in blocks}
    for cid, block in held.items():
        assert CID.of_block(block, cid.codec) == cid

    def read(cid, size, depth):
        if depth == 0:
            assert len(held[cid]) == size
            return held[cid]
        return b"".join(read(x.cid, x.size, depth - 1) for x in decode_node(held[cid], size, depth, TINY))

    root = blocks[-1]
    assert read(root.cid, len(data), depth_of(len(data), TINY)) == data
    links = decode_root(bytes(root.data), TINY)
    if len(data) > TINY.chunk_size:
        assert sum(link.size for link in links) == len(data)
        assert sum(x.total_size for x in links) == sum(len(x.data) for x in blocks) - len(root.data)
    else:
        assert links is None


def leaf_link(size, total=None, codec=RAW, fill=7):
    return Link(CID.from_digest(bytes([fill]) * 32, codec), size, size if total is None else total)


GOOD = [leaf_link(4), leaf_link(4, fill=8), leaf_link(2, fill=9)]


def test_the_handmade_root_is_read():
    assert decode_root(encode_node(GOOD), TINY) == tuple(GOOD)


def with_unixfs(unixfs):
    return encode_node(GOOD)[:-12] + b"\x0a" + varint(len(unixfs)) + unixfs


def test_the_replaced_unixfs_part_is_in_the_right_place():
    assert with_unixfs(b"\x08\x02\x18\x0a\x20\x04\x20\x04\x20\x02") == encode_node(GOOD)


@pytest.mark.parametrize(
    "block",
    {
        "empty": b"",
        "one link": encode_node(GOOD[:1]),
        "too many links": encode_node([leaf_link(4)] * 4),
        "short chunk in the middle": encode_node([GOOD[0], leaf_link(2), leaf_link(4)]),
        "wrong total size": encode_node([GOOD[0], leaf_link(4, total=5), GOOD[2]]),
        "leaf with the codec of a node": encode_node([GOOD[0], leaf_link(4, codec=DAG_PB), GOOD[2]]),
        "empty last chunk": encode_node([GOOD[0], GOOD[1], leaf_link(0)]),
        "trailing byte": encode_node(GOOD) + b"\x00",
        "cut": encode_node(GOOD)[:-1],
        "duplicate Data": encode_node(GOOD) + b"\x0a\x00",
        "Data first": b"\x0a\x0a\x08\x02\x18\x0a\x20\x04\x20\x04\x20\x02" + encode_node(GOOD)[:-12],
        "file size not the sum": with_unixfs(b"\x08\x02\x18\x09\x20\x04\x20\x04\x20\x02"),
        "duplicate file size": with_unixfs(b"\x08\x02\x18\x0a\x18\x0a\x20\x04\x20\x04\x20\x02"),
        "block sizes swapped": with_unixfs(b"\x08\x02\x18\x0a\x20\x02\x20\x04\x20\x04"),
        "a block size missing": with_unixfs(b"\x08\x02\x18\x0a\x20\x04\x20\x04"),
        "packed block sizes": with_unixfs(b"\x08\x02\x18\x0a\x22\x03\x04\x04\x02"),
        "directory": with_unixfs(b"\x08\x01\x18\x0a\x20\x04\x20\x04\x20\x02"),
        "inline data": with_unixfs(b"\x08\x02\x12\x01x\x18\x0a\x20\x04\x20\x04\x20\x02"),
        "mode": with_unixfs(b"\x08\x02\x18\x0a\x20\x04\x20\x04\x20\x02\x38\x00"),
        "long varint": with_unixfs(b"\x08\x02\x18\x8a\x00\x20\x04\x20\x04\x20\x02"),
        "huge varint": with_unixfs(b"\x08\x02\x18" + b"\xff" * 9 + b"\x01"),
        "huge file": with_unixfs(b"\x08\x02\x18" + varint((1 << 63) - 1) + b"\x20\x04\x20\x04\x20\x02"),
        "named link": b"\x12\x2b" + encode_node(GOOD)[2:40] + b"\x12\x01x\x18\x04" + encode_node(GOOD)[44:],
    }.items(),
    ids=lambda item: item[0],
)
def test_a_block_that_is_not_the_canonical_root_is_raw_content(block):
    assert decode_root(block[1], TINY) is None


@given(st.integers(0, len(encode_node(GOOD)) - 1), st.integers(1, 255))
def test_a_changed_byte_changes_a_digest_or_makes_it_raw_content(position, change):
    changed = bytearray(encode_node(GOOD))
    changed[position] ^= change
    links = decode_root(bytes(changed), TINY)
    assert links is None or [x.cid for x in links] != [x.cid for x in GOOD]


@given(st.binary(max_size=300))
def test_arbitrary_bytes_never_raise(data):
    assert decode_root(data, TINY) is None
    assert decode_root(b"\x12" + data) is None


def test_an_inner_node_must_have_the_size_and_depth_its_parent_says():
    block = encode_node(GOOD)
    assert decode_node(block, 10, 1, TINY) == tuple(GOOD)
    with pytest.raises(InvalidContent, match="its parent states 11"):
        decode_node(block, 11, 1, TINY)
    with pytest.raises(InvalidContent):
        decode_node(block, 10, 2, TINY)
    with pytest.raises(InvalidContent):
        decode_node(block, 10, 0, TINY)


@given(st.integers(0, (1 << 63) - 1), st.binary(max_size=3))
def test_varint_round_trip(number, rest):
    encoded = varint(number)
    assert read_varint(encoded + rest, 0) == (number, len(encoded))


@pytest.mark.parametrize("encoded", [b"", b"\x80", b"\x80\x00", b"\xff" * 9, b"\x80" * 9 + b"\x01"])
def test_malformed_varints_are_refused(encoded):
    with pytest.raises(InvalidContent, match="varint"):
        read_varint(encoded, 0)
