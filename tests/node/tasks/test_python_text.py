"""What a Python file of a bundle may be: whatever passes is, to the interpreter, the text that people read."""

import ast
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.node.tasks.names import InvalidBundle
from fedgrove.node.tasks.python_text import MAX_PYTHON_BYTES, check_python, foreign_encoding
from tests.node.tasks.folders import bundle


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# -*- coding: utf-8 -*-\nx = 1\n",
        "#!/usr/bin/python\n# vim: set fileencoding=UTF_8 :\n",
        "\ufeff# coding: utf8\n",
        "x = 1\r\ny = 2\r\n",
        "'''Gr\u00f6\u00dfe'''\n\tx = '\u65e5\u672c'\n",
        "x = 1\ny = 2\n# coding: latin-1\n",
        "x = 'coding: latin-1'\n",
    ],
)
def test_plain_text_is_taken(text):
    check_python("task.py", text.encode())
    assert bundle(task=text.encode()).contents["task.py"] == text.encode()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"x = 1\ny = '\xe9'\n", "task.py, line 2 is not UTF-8: save the file as UTF-8"),
        (b"x = '\xed\xa0\x80'\n", "line 1 is not UTF-8"),
        (b"x = 1\n\n# a\rb\n", r"line 3 has the control character \r"),
        (b"x = 1\0", r"line 1 has the control character \x00"),
        (b"x = 1\n\x0c", r"line 2 has the control character \x0c"),
        (b"# coding: latin-1\n", "says that its encoding is latin-1: save it as UTF-8, without that comment"),
        (b"\n \t# -*- coding=utf-7 -*-", "says that its encoding is utf-7"),
        (b"\xef\xbb\xbf#coding:UTF-16", "says that its encoding is UTF-16"),
        (b"# coding: utf-8 coding: utf-7", "says that its encoding is utf-7"),
        (b"#" * (MAX_PYTHON_BYTES + 1), "a Python file at most 256 KiB: divide it"),
    ],
)
def test_the_rest_is_refused_with_its_line(data, sentence):
    with pytest.raises(InvalidBundle) as refusal:
        check_python("task.py", data)
    assert sentence in str(refusal.value) and str(refusal.value).isprintable()
    with pytest.raises(InvalidBundle):
        bundle(task=data)


WORDS = [
    *"#\n\r\t\f\0 :=+-.",
    "\r\n",
    "# ",
    "coding",
    "coding: ",
    "utf-8",
    "utf_8",
    "utf8",
    "utf-7",
    "latin-1",
    "cp037",
]
WORDS += ["x = 1", "'\u00e9'", "\ufeff", "\u200b", "+AAo-x=2", "\\u000ay=3", "if 0:\n    ", "\\\n", '"""', "\x1a"]


@given(st.lists(st.sampled_from(WORDS), max_size=12).map("".join))
def test_what_is_taken_runs_as_it_reads(text):
    """The interpreter decodes bytes by its own rules; for what is taken, they give the text."""
    data = text.encode()
    try:
        check_python("task.py", data)
    except InvalidBundle:
        return
    assert _parsed(data) == _parsed(text.removeprefix("\ufeff"))


def _parsed(source: bytes | str) -> str | None:
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.dump(ast.parse(source), include_attributes=True)
    except SyntaxError:
        return None


def test_an_encoding_is_named_in_the_first_two_lines_of_a_comment_only():
    assert foreign_encoding("# coding: cp1252") == foreign_encoding("'''\n# coding: cp1252") == "cp1252"
    assert foreign_encoding("\n\n# coding: cp1252") == foreign_encoding("coding: cp1252") == ""
