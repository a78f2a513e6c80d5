"""TOML as people's editors leave it."""

import codecs

import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.strict_toml import parse_toml


def test_a_byte_order_mark_is_no_part_of_the_first_key():
    assert parse_toml(codecs.BOM_UTF8 + "name = 'Köln'".encode()) == {"name": "Köln"}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (codecs.BOM_UTF16_LE + "a = 1".encode("utf-16-le"), "it is in UTF-16: save it as UTF-8"),
        (codecs.BOM_UTF16_BE + "a = 1".encode("utf-16-be"), "it is in UTF-16: save it as UTF-8"),
        ("a = 'ö'".encode("latin-1"), "it is not UTF-8 at byte 5: save it as UTF-8"),
    ],
)
def test_another_encoding_is_named_with_the_remedy(data, sentence):
    with pytest.raises(InvalidContent, match=sentence):
        parse_toml(data)
