"""What a reader of a bundle might overlook or take for something else: a sentence each, to be shown with its text."""

import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from itertools import islice

from fedgrove.node.base.visible import is_visible
from fedgrove.node.tasks.bundle import Bundle
from fedgrove.node.tasks.difference import printable, text_of
from fedgrove.node.tasks.lock import providers
from fedgrove.node.tasks.python_text import foreign_encoding
from fedgrove.node.tasks.task_methods import TaskClass, task_classes

_MODULE = re.compile(r"([^/]+?)(?:\.py|/__init__\.py)")
_LONG_LINE = 200  # characters; more are cut off by many programs that show text
_GAP = re.compile(r"\S[ \t]{32,}(?=[^ \t\r\n])")
_NAME = re.compile(r"[^\W\d]\w*")
_BRACES = re.compile(r"\{.*\}", re.DOTALL)
_EMPTY_LINES = 40
_MOST_LINES = 5  # that a sentence names


def reading_notes(bundle: Bundle) -> tuple[str, ...]:
    """The sentences about all files, sorted by path; none where everything is as it looks."""
    notes = (note for file in bundle.contents.items() for note in _notes(*file))
    return (*notes, *(note for each in task_classes(bundle.contents) for note in _ignored(each)))


def _ignored(found: TaskClass) -> Iterator[str]:
    for name, meant in found.ignored:
        yield f"{found.path}: class {found.name} has a method {name}, which fedgrove never calls; is {meant} meant?"


def _notes(path: str, data: bytes) -> Iterator[str]:
    yield from _module_of_others(path)
    text = text_of(data)
    if text is None:
        yield f"{path} is not text, so nobody can read what is in it"
        return
    is_python = path.endswith(".py")
    lines = text.split("\n")
    yield from _numbered(path, "characters that are not seen or change the order of others", map(_has_hidden, lines))
    if foreign_encoding(text) and not is_python:
        yield f"{path} says that its encoding is {foreign_encoding(text)}: code that runs it may run other lines"
    if is_python:
        long = (len(line) > _LONG_LINE or _GAP.search(line) is not None for line in lines)
        yield from _numbered(path, "text far to the right", long)
        for first, last in islice(_gaps(lines), 1):
            yield f"{path} has only blanks in lines {first} to {last}, and goes on after them"
        yield from _lookalikes(path, text)


def _module_of_others(path: str) -> Iterator[str]:
    """Whether Python would import a module of a bundle in place of somebody else's."""
    found = _MODULE.fullmatch(path)
    if found and found[1] in sys.stdlib_module_names:
        yield f"{path} takes the place of Python's own module {found[1]}"
    elif found and found[1] in providers():
        yield f"{path} takes the place of the installed module {found[1]}"


def _has_hidden(line: str) -> bool:
    shown = line.removesuffix("\r")
    if shown.isascii() and shown.isprintable():
        return False
    return not all(is_visible(each) or each == "\t" for each in shown)


def _numbered(path: str, what: str, found: Iterator[bool]) -> Iterator[str]:
    numbers = [number for number, is_found in enumerate(found, 1) if is_found]
    if numbers:
        named, more = ", ".join(map(str, numbers[:_MOST_LINES])), len(numbers) - _MOST_LINES
        others = f" and {more} others" if more > 0 else ""
        yield f"{path} has {what} in {'lines' if len(numbers) > 1 else 'line'} {named}{others}"


def _gaps(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """First and last of many lines without text that have some on both sides; in one pass, however many there are."""
    before = 0
    for number, line in enumerate(lines, 1):
        if line.strip():
            if before and number - before > _EMPTY_LINES:
                yield before + 1, number - 1
            before = number


def _lookalikes(path: str, text: str) -> Iterator[str]:
    """Names with letters beyond ASCII: many look like others, and Python takes some for others (NFKC)."""
    if text.isascii():
        return
    names: dict[str, int] = {}
    read = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            read = token.start[0]
            for name in _names_in(token):
                names.setdefault(name, read)
    except (tokenize.TokenError, SyntaxError):  # this reader's: Python itself may go on, so all words may be names
        for number, line in enumerate(text.split("\n")[read:], read + 1):
            for name in _foreign(line):
                names.setdefault(name, number)
    for name, line in islice(names.items(), _MOST_LINES):
        yield f"{path}, line {line} has a name with letters that may look like others: {printable(name)} is {name!a}"
    if len(names) > _MOST_LINES:
        yield f"{path} has {len(names) - _MOST_LINES} more names with letters beyond ASCII"


def _names_in(token: tokenize.TokenInfo) -> list[str]:
    """Names with letters beyond ASCII that a token is, or has between the braces of a formatted string."""
    if token.type == tokenize.NAME:
        return _foreign(token.string)
    if token.type == tokenize.STRING and "f" in re.split("['\"]", token.string, maxsplit=1)[0].lower():
        found = _BRACES.search(token.string)
        return _foreign(found[0]) if found else []
    return []


def _foreign(text: str) -> list[str]:
    return [] if text.isascii() else [name for name in _NAME.findall(text) if not name.isascii()]
