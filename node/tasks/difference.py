"""What changed from one bundle to the next, as text that is safe to print: every line of every text file that differs.

No change is left out for its size: where two texts are too different to be compared line by line, the old lines are
shown as removed and the new ones as added.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fedgrove.node.base.visible import is_visible
from fedgrove.node.tasks.bundle import Bundle

MAX_COMPARED_LINES = 1000
"""Of each text, between the first and the last line that differ: the comparison takes time with their square."""
_CONTEXT = 3
_RANGES = re.compile(r"([-+])(\d+)")


@dataclass(frozen=True)
class FileChange:
    """A file that differs between two bundles.

    Attributes
    ----------
    path, kind : str
    before, after : int
        Bytes; 0 where there is no such file.
    lines : tuple of str
        A unified diff, safe to print; empty where one of the two is not text.
    """

    path: str
    kind: Literal["added", "removed", "changed"]
    before: int
    after: int
    lines: tuple[str, ...]


def changes(old: Bundle | None, new: Bundle) -> tuple[FileChange, ...]:
    """The files that differ, code first, then sorted by path; all of them where there is no old bundle."""
    before: Mapping[str, bytes] = {} if old is None else old.contents
    after = new.contents
    return tuple(
        _change(path, before.get(path), after.get(path))
        for path in sorted(before.keys() | after.keys(), key=lambda path: (not path.endswith(".py"), path))
        if before.get(path) != after.get(path)
    )


def printable(text: str) -> str:
    """A text of one line with every character escaped that could change how a terminal or a reader sees the rest.

    Control characters move the cursor and repaint what was printed; marks of direction reorder what is read; others are
    not seen at all.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if is_visible(each) or each == "\t" else each.encode("unicode_escape").decode() for each in text
    )


def text_of(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _change(path: str, before: bytes | None, after: bytes | None) -> FileChange:
    kind = "added" if before is None else "removed" if after is None else "changed"
    texts = text_of(before or b""), text_of(after or b"")
    lines = () if None in texts else tuple(_diff(path, _lines(texts[0] or ""), _lines(texts[1] or "")))
    return FileChange(path, kind, len(before or b""), len(after or b""), lines)


def _lines(text: str) -> list[str]:
    *whole, last = text.split("\n")  # not splitlines, to which a form feed, too, ends a line
    return [*(f"{line}\n" for line in whole), *([last] if last else [])]


def _diff(path: str, old: list[str], new: list[str]) -> Iterator[str]:
    start = _same(old, new)
    end = _same(old[start:][::-1], new[start:][::-1])
    first = max(0, start - _CONTEXT)
    before, after = (lines[first : len(lines) - max(0, end - _CONTEXT)] for lines in (old, new))
    alike = max(len(old), len(new)) - start - end <= MAX_COMPARED_LINES
    found = difflib.unified_diff(before, after, path, path) if alike else _replaced(path, before, after, start - first)
    for line in found:
        shifted = _RANGES.sub(lambda match: f"{match[1]}{int(match[2]) + first}", line) if line[:2] == "@@" else line
        yield printable(shifted.removesuffix("\n"))
        if not shifted.endswith("\n"):
            yield "\\ No newline at the end of the file"


def _replaced(path: str, old: Sequence[str], new: Sequence[str], context: int) -> Iterator[str]:
    """The diff of two texts that share their first ``context`` lines, with everything after these replaced."""
    yield from (f"--- {path}\n", f"+++ {path}\n", f"@@ -1,{len(old)} +1,{len(new)} @@\n")
    yield from (f" {line}" for line in old[:context])
    yield from (f"-{line}" for line in old[context:])
    yield from (f"+{line}" for line in new[context:])


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of lines at the beginning that are equal."""
    for count, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return count
    return min(len(one), len(other))
