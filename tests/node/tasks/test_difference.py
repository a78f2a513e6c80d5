"""A reader sees every change, and nothing in it can hide from the reader's terminal."""

import re
from collections.abc import Sequence
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.node.tasks.bundle import Bundle
from fedgrove.node.tasks.difference import MAX_COMPARED_LINES, changes, printable
from tests.node.tasks.folders import FILES, bundle


def diff(old: bytes, new: bytes) -> tuple[str, ...]:
    before, after = (Bundle.of({**FILES, "notes": data}) for data in (old, new))
    (change,) = changes(before, after)
    assert (change.path, change.kind, change.before, change.after) == ("notes", "changed", len(old), len(new))
    return change.lines


def test_added_removed_and_changed_files_are_listed_with_sizes():
    old, new = bundle(gone=b"1\n", same=b"2\n"), bundle(come=b"three\n", same=b"2\n", task=b"")
    found = [(each.path, each.kind, each.before, each.after) for each in changes(old, new)]
    size = len(FILES["task.py"])
    assert found == [("come.py", "added", 0, 6), ("gone.py", "removed", 2, 0), ("task.py", "changed", size, 0)]
    assert changes(new, new) == ()


def test_a_first_version_is_all_new_and_its_code_comes_first():
    found = changes(None, Bundle.of({**FILES, "a.bin": b"\xff"}))
    assert [each.path for each in found] == ["layers/block.py", "task.py", "README.md", "a.bin", "task.lock"]
    assert {each.kind for each in found} == {"added"}
    assert found[0].lines[2:] == ("@@ -0,0 +1 @@", "+WIDTH = 16") and not found[3].lines


texts = st.lists(st.sampled_from(["a", "b", "", "+c", "-- d", "@@ e"]), max_size=40).map("\n".join)


@pytest.mark.parametrize("most", [MAX_COMPARED_LINES, 3])
@given(texts, texts)
def test_the_diff_makes_the_new_text_of_the_old_one(most, old, new):
    with mock.patch("fedgrove.node.tasks.difference.MAX_COMPARED_LINES", most):
        lines = () if old == new else diff(old.encode(), new.encode())
    assert patched(old, lines) == new


def patched(old: str, lines: Sequence[str]) -> str:
    """The text that a unified diff makes of ``old``, whose removed and context lines must be there."""
    source, made, position = old.splitlines(keepends=True), [], 0
    for line in with_ends(lines[2:]):
        if line.startswith("@@"):
            first, count = re.match(r"@@ -(\d+)(?:,(\d+))?", line).groups()
            start = int(first) - (count != "0")
            made += source[position:start]
            position = start
        elif line[0] == "+":
            made.append(line[1:])
        else:
            assert source[position] == line[1:]
            made += [line[1:]] * (line[0] == " ")
            position += 1
    return "".join(made + source[position:])


def with_ends(lines: Sequence[str]) -> list[str]:
    found = []
    for line in lines:
        if line.startswith("\\"):
            found[-1] = found[-1].removesuffix("\n")
        else:
            found.append(f"{line}\n")
    return found


def test_of_a_long_text_only_the_surroundings_of_a_change_are_shown():
    lines = [f"line {number}" for number in range(5000)]
    old = "\n".join(lines).encode()
    lines[3000] = "changed"
    assert diff(old, "\n".join(lines).encode()) == (
        "--- notes",
        "+++ notes",
        "@@ -2998,7 +2998,7 @@",
        *(f" line {number}" for number in (2997, 2998, 2999)),
        "-line 3000",
        "+changed",
        *(f" line {number}" for number in (3001, 3002, 3003)),
    )


def test_two_long_and_different_texts_are_shown_in_full():
    old, new = ("\n".join(f"{word} {number % 7}" for number in range(9000)) for word in ("old", "new"))
    lines = diff(old.encode(), new.encode())
    assert sum(line.startswith("-") for line in lines[3:]) == sum(line.startswith("+") for line in lines[3:]) == 9000


def test_what_is_no_text_shows_only_sizes():
    assert diff(b"\xff\xfe", b"text") == diff(b"text", b"a\0b") == ()
    assert diff(b"caf\xc3\xa9", b"") != ()


@pytest.mark.parametrize(
    "hidden",
    [
        "\x1b[2J\x1b[1;1H",  # clears the screen
        "\x1b]0;title\x07",
        "\x9b2J",  # the same in one character
        "safe\ros.system('x')",  # prints over itself
        "\b" * 20,
        "\u202e\u2066",  # shows the text in another order (Trojan Source)
        "\u200b\ufeff",  # no width
        "\x0b\x0c\x85\u2028",  # ends of lines to some readers
        "\U000e0041",  # a tag, which nothing shows
        "\ufe00\ufe0f\U000e0100\U000e01ef",  # selectors of variants, of which a program was made (Glassworm)
        "\u034f\u115f\u1160\u180b\u180f\u3164\uffa0",  # joiners and fillers, some of which may stand in names
        "\u2800",  # a pattern of Braille without a dot
    ],
)
def test_what_could_fool_a_reader_is_escaped(hidden):
    lines = diff(b"x = 1\n", f"x = 1\n# {hidden}\n".encode())
    assert len(lines) == 5 and all(line.isascii() and line.isprintable() for line in lines)
    assert printable(hidden).encode().decode("unicode_escape") == hidden


def test_ordinary_text_is_printed_as_it_is():
    assert printable("\tif naïve: print('日本')  # Ελλάδα") == "\tif naïve: print('日本')  # Ελλάδα"
