"""Check the English of the documentation and of the command's help: ``python scripts/words.py``.

Prints ``FILE:LINE: phrase → replacement`` for each phrase of ``PHRASES``, each sentence that begins with a noun clause,
and each line of prose that is too long. The exit code is 1 if there is any. Code and addresses of links are not read.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from fedgrove.node.cli.main import command_line

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
WIDTH = 120

# What is matched, in any case and over line breaks, and what to write instead.
PHRASES = {
    r"so (many|often)": "this many, N times, or the number",
    r"such(?! as)": "this, these, or the thing by its name",
    r"of which": "two sentences",
    r"as suits": "the default by its name",
    r"besides?": "compared with, next to, in addition to",
    r"others than": "other than, or the thing by its name",
    r"dearer": "costs more",
    r"(?<!can\s)(?<!cannot\s)tells? (how|which|what|whether|who|of|for)": "show, report, reveal",
    r"mend(s|ed|ing)?": "fix",
    r"(hold|holds|held) again": "repeat",
    r"(hold|holds|held) (it |them )?against": "compare with",
    r"(dealt|deals? (the|out|otherwise))": "split, partition",
    r"(come|comes|came) to (nothing|something)": "fail, close, or the result by its name",
    r"that are alike": "with similar data",
    r"model before (it )?stands": "the previous model stays in force",
    r"in (its|their|the coordinator's) stead": "in its place",
    r"be it that": "even if",
    r"but for": "except for",
}
FORBIDDEN = [
    (re.compile(rf"\b{phrase}\b".replace(" ", r"\s+"), re.IGNORECASE), instead) for phrase, instead in PHRASES.items()
]
# "Who is away sits out.", but no question, no heading, no link and nothing in bold.
CLAUSE = re.compile(r"(?<![\[*])(?<!# )\b(Who|What)\s[^?.:!|]*\.(?=\s)")
UNREAD = re.compile(r"^ *```.*?^ *```$|^    [^\n]*$|`[^`]*`|(?<=\])\([^)]*\)|<[^>\n]*>", re.DOTALL | re.MULTILINE)


def read(text: str) -> str:
    """A text with ``_`` in place of every character that is not prose; lines keep their numbers and lengths."""
    return UNREAD.sub(lambda match: re.sub(r"[^\n]", "_", match[0]), text)


def faults(name: str, text: str) -> Iterator[str]:
    """What is wrong with the words of a text."""
    prose = read(text)
    for pattern, instead in [*FORBIDDEN, (CLAUSE, "begin with the subject")]:
        for match in pattern.finditer(prose):
            number, words = prose[: match.start()].count("\n") + 1, " ".join(match[0].split())
            yield f"{name}:{number}: {words[:60]} → {instead}"


def long_lines(name: str, text: str) -> Iterator[str]:
    """Lines of prose beyond ``WIDTH``; tables, code and links on their own are as long as they need."""
    for number, line in enumerate(read(text).splitlines(), 1):
        if len(line) > WIDTH and " " in line.strip() and not line.lstrip().startswith("|"):
            yield f"{name}:{number}: {len(line)} characters → at most {WIDTH}"


def help_texts(command, path: str) -> Iterator[tuple[str, str]]:
    """Name and help of a command, of its options, and of the commands below it."""
    yield path, re.sub(r"(?m)^Example: .*$", "", command.help or "")
    for option in command.params:
        yield f"{path} {option.opts[0]}", getattr(option, "help", None) or ""
    children = getattr(command, "commands", {})
    for name in children:
        yield from help_texts(children[name], f"{path} {name}")


def main() -> int:
    pages = [(str(page.relative_to(ROOT)), page.read_text()) for page in PAGES]
    found = [fault for page in [*pages, *help_texts(command_line, "fedgrove")] for fault in faults(*page)]
    found += [fault for page in pages for fault in long_lines(*page)]
    print("\n".join(found) or "the words are plain English")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
