"""What a reader would overlook is named, and ordinary files get no note."""

import pytest

from fedgrove.node.tasks.beginning import KINDS, begin
from fedgrove.node.tasks.bundle import Bundle, draft
from fedgrove.node.tasks.reading_notes import reading_notes
from tests.node.tasks.folders import FILES


def notes(path: str, text: str | bytes) -> list[str]:
    data = text if isinstance(text, bytes) else text.encode()
    return list(reading_notes(Bundle.of({**FILES, path: data})))


@pytest.mark.parametrize(
    ("path", "text", "note"),
    [
        ("w.bin", b"\xff", "w.bin is not text, so nobody can read what is in it"),
        ("w.txt", "a\0b", "w.txt is not text, so nobody can read what is in it"),
        ("n.md", "a\n\u202eb\n\u200b", "characters that are not seen or change the order of others in lines 2, 3"),
        ("n.md", "\x1b[2J\n" * 9, "in lines 1, 2, 3, 4, 5 and 4 others"),
        ("a.py", "x = 1;" + " " * 300 + "y = 2\n", "a.py has text far to the right in line 1"),
        ("a.py", "x = 1;" + " " * 60 + "y = 2\n", "a.py has text far to the right in line 1"),
        ("a.py", "\n" + "#" * 201, "a.py has text far to the right in line 2"),
        ("a.py", "x = 1\n" + "\n" * 100 + "y = 2\n", "a.py has only blanks in lines 2 to 101, and goes on after them"),
        (
            "a.py",
            "def l\u043ess(): pass\n",
            r"letters that may look like others: lоss is 'l\u043ess'",
        ),
        ("a.py", "\U0001d41e\U0001d42f\U0001d41a\U0001d425('1')\n", "letters that may look like others"),
        ("random.py", "", "random.py takes the place of Python's own module random"),
        ("numpy/__init__.py", "", "numpy/__init__.py takes the place of the installed module numpy"),
        ("code.txt", "# coding: utf-7\n", "code.txt says that its encoding is utf-7"),
    ],
)
def test_what_is_easily_overlooked_is_named(path, text, note):
    found = notes(path, text)
    assert len(found) == 1 and note in found[0], found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "x = 'Größe'  # 日本\r\n"),
        ("a.py", "x = (\n" + " " * 60 + "1)\n" + "\n" * 9),
        ("rows.csv", "1," * 500 + "2" + "\n" * 99 + "3"),
        ("random/notes.txt", "not imported"),
        ("layers/random.py", "x = 1\n"),
        ("a.py", "x = ("),
        ("a.py", "é = ("),
    ],
)
def test_ordinary_files_get_no_note(path, text):
    assert [each for each in notes(path, text) if "é" not in each] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_folders_to_begin_with_get_none(tmp_path, kind):
    begin(tmp_path / kind, kind)
    assert reading_notes(draft(tmp_path / kind)) == ()
