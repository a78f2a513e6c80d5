import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.cid import CID, DAG_PB, RAW

HELLO_V1 = "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e"  # "hello world", Kubo test/cli/add_test.go


def test_raw_block_of_hello_world_has_the_published_name():
    cid = CID.of_block(b"hello world", RAW)
    assert str(cid) == HELLO_V1
    assert CID.parse(HELLO_V1) == cid
    assert cid.digest == hashlib.sha256(b"hello world").digest()


def test_a_block_has_one_cid_whether_its_bytes_or_their_digest_are_known():
    assert CID.from_digest(hashlib.sha256(b"hello").digest(), RAW) == CID.of_block(b"hello", RAW)


@given(st.binary(min_size=32, max_size=32), st.sampled_from([RAW, DAG_PB]))
def test_text_and_bytes_round_trip(digest, codec):
    cid = CID(codec, digest)
    assert CID.parse(str(cid)) == cid
    assert CID.from_bytes(bytes(cid)) == cid


@given(st.text(max_size=80))
def test_any_other_text_is_refused(text):
    with pytest.raises(InvalidContent):
        CID.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        HELLO_V1.upper(),
        HELLO_V1 + "\n",
        HELLO_V1[:-1],
        HELLO_V1[:-1] + "f",  # unused bits of the last character set: another spelling of the same bytes
        "z" + HELLO_V1[1:],
        "bafyreihdb57fdysx5h35urvxz64ros7zvywshber7id6t6c6fek37jgyfe",  # dag-cbor
        "Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfD",  # version 0
    ],
)
def test_near_misses_are_refused(text):
    with pytest.raises(InvalidContent):
        CID.parse(text)


@pytest.mark.parametrize("length", [0, 1, 33, 35, 36, 37])
def test_bytes_of_another_form_are_refused(length):
    with pytest.raises(InvalidContent):
        CID.from_bytes(bytes(length))


def test_digest_length_and_codec_are_checked():
    with pytest.raises(InvalidContent):
        CID.from_digest(bytes(31), RAW)
    with pytest.raises(InvalidContent):
        CID.from_digest(bytes(32), 0x71)
