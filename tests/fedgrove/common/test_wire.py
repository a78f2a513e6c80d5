"""Hostile JSON is an error, never the end of the process."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import MAX_DEPTH, parse_json

leaves = st.none() | st.booleans() | st.integers() | st.text('[]{}"\\a', max_size=6)
documents = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@given(documents)
def test_it_agrees_with_the_library(document):
    assert parse_json(json.dumps(document).encode()) == document


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":['])
def test_deep_nesting_is_refused(opening):
    with pytest.raises(InvalidContent, match="nested deeper"):
        parse_json(opening * 100_000)


def test_the_bound_itself_is_allowed():
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    with pytest.raises(InvalidContent, match="nested deeper"):
        parse_json(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))


@pytest.mark.parametrize("closed", [b"[],", b"{},", b"[[]],"])
def test_what_was_closed_before_does_not_make_room_for_deeper_nesting(closed):
    fits = b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1)
    assert parse_json(b"[" + closed * 100 + fits + b"]")
    with pytest.raises(InvalidContent, match="nested deeper"):
        parse_json(b"[" + closed * 100 + b"[" + fits + b"]" + b"]")


@pytest.mark.parametrize("data", [b"", b"\xff", b'"', b'"\\', b"{", b"]", b"nul", b'{"a":1,"a":1}', b'"\\ud800"'])
def test_what_is_no_json_is_refused(data):
    with pytest.raises(InvalidContent):
        parse_json(data)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_nothing_else(data):
    try:
        parse_json(data)
    except InvalidContent:
        return
