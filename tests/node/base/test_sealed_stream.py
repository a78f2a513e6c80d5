"""Sealed content in segments: it comes back whole, in little memory, and whoever touches it is noticed."""

import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.common.chunks import cut, joined
from fedgrove.common.errors import InvalidContent
from fedgrove.node.base import sealed_stream
from fedgrove.node.base.sealed_stream import seal, unseal

KEY, NAME = bytes(range(32)), b"00000001-update.sealed"


@pytest.fixture(autouse=True)
def short_segments(monkeypatch):
    monkeypatch.setattr(sealed_stream, "SEGMENT_BYTES", 8)


def opened(sealed: bytes, key: bytes = KEY, name: bytes = NAME) -> bytes:
    return joined(unseal(key, name, io.BytesIO(sealed)))


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 16, 17, 100])
def test_content_of_any_length_comes_back(length):
    data = os.urandom(length)
    assert opened(joined(seal(KEY, NAME, (data[:3], data[3:])))) == data


def test_every_changed_byte_and_every_missing_end_is_noticed():
    sealed = joined(seal(KEY, NAME, [bytes(20)]))
    for place in range(len(sealed)):
        with pytest.raises(InvalidContent):
            opened(sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :])
        with pytest.raises(InvalidContent):
            opened(sealed[:place])
    with pytest.raises(InvalidContent):
        opened(sealed + b"x")


def test_segments_cannot_change_places_and_none_can_be_left_out():
    sealed = joined(seal(KEY, NAME, [bytes(24)]))
    salt, *segments = sealed[:16], sealed[16:40], sealed[40:64], sealed[64:]
    for order in ([1, 0, 2], [0, 2], [1, 2], [0, 1], [0, 0, 1, 2], [2]):
        with pytest.raises(InvalidContent):
            opened(salt + b"".join(segments[number] for number in order))


def test_another_key_or_name_opens_nothing_and_no_two_are_alike():
    sealed = joined(seal(KEY, NAME, [b"weights"]))
    for key, name in ((bytes(32), NAME), (KEY, b"00000002-update.sealed")):
        with pytest.raises(InvalidContent):
            opened(sealed, key, name)
    assert sealed != joined(seal(KEY, NAME, [b"weights"]))


@given(st.lists(st.binary(max_size=20)), st.integers(1, 9))
def test_pieces_are_cut_to_one_size(pieces, size):
    found = [bytes(each) for each in cut(pieces, size)]
    assert b"".join(found) == b"".join(pieces)
    assert all(len(each) == size for each in found[:-1]) and all(found)
