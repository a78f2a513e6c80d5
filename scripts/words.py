"""Check the English of documentation, messages, docstrings, comments and identifiers: ``python scripts/words.py``.

Prints ``FILE:LINE: phrase → replacement`` for each phrase of ``PHRASES``, each sentence that begins with a noun clause,
and each line of prose that is too long. The exit code is 1 if there is any. Code and addresses of links are not read.
Messages are the strings of at least three words in the product's code, and the text of the explorer's pages. Docstrings
and comments may use two phrases more (``ONLY_IN_PROSE``). ``IN_NAMES`` lists words that no identifier may be made of; a
word joins the list once nothing is called by it any more.
"""

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md", "CHANGELOG.md")),
    # The other pages of results are written by programs, and the protocol was written before its runs.
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "results" not in path.parts),
    ROOT / "docs" / "results" / "README.md",
    *sorted((ROOT / "examples").glob("*/*.md")),
]
CODE = [
    path
    for package in ("chain", "ipfs", "fedgrove", "node", "lab", "scripts")
    for path in sorted((ROOT / package).rglob("*.py"))
    if path != Path(__file__).resolve()
]
PRODUCT = [path for package in ("chain", "ipfs", "fedgrove", "node") for path in sorted((ROOT / package).rglob("*.py"))]
COMMANDS = [path for package in ("node", "lab") for path in sorted((ROOT / package / "cli").glob("*.py"))]
TEMPLATES = sorted((ROOT / "node" / "explorer" / "templates").glob("*.html"))
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
    r"bytes? a parameter": "per parameter",
    r"surely (above|below)": "significantly better than, significantly worse than",
    r"look(s|ed|ing)? whether": "check that",
    r"(for|from) want of": "for lack of",
    r"in earnest": "in production",
}
# In code these name an exact thing, as in "such a key keeps no secret" and "all of which end with the process".
ONLY_IN_PROSE = {
    r"such(?! as)": r"(?<!no\s)such(?! as| an? | that)",
    r"of which": r"(?<!each\s)(?<!none\s)(?<!all\s)of which",
}
# Words that no identifier may hold, and what to call the thing.
IN_NAMES = {
    "beside": "next to, or what it is",
    "besides": "the thing that comes in addition",
    "company": "members, cohort",
    "deals": "splits",
    "dearer": "costlier",
    "folk": "members",
    "heard": "received, or what it led to",
    "mend": "repair",
    "mended": "fixed",
    "stead": "place",
    "such": "the thing by its name",
    "tidings": "news, events",
    "told": "stated, described, reported",
    "want": "wanted, missing",
    "whence": "source",
}
# More that is not written in a message, where every word counts.
IN_MESSAGES = {
    r"(?<!there\s)(is|are|was|were) no (?!longer|more)": "is not a",
    r"at hand": "available",
    r"for want of": "for lack of, or the cause",
    r"can(not)? be (had|told)": "available, known",
    r"taken? (back|off)": "withdrawn, removed",
    r"out of reach": "unavailable",
}


def _compiled(phrases: dict[str, str]) -> list[tuple[re.Pattern[str], str]]:
    return [
        (re.compile(rf"\b{phrase}\b".replace(" ", r"\s+"), re.IGNORECASE), instead)
        for phrase, instead in phrases.items()
    ]


FORBIDDEN = _compiled(PHRASES)
FORBIDDEN_IN_MESSAGES = FORBIDDEN + _compiled(IN_MESSAGES)
FORBIDDEN_IN_CODE = _compiled({ONLY_IN_PROSE.get(phrase, phrase): instead for phrase, instead in PHRASES.items()})
# "Who is away sits out.", but no question, no heading, no link and nothing in bold.
CLAUSE = re.compile(r"(?<![\[*])(?<!# )\b(Who|What)\s[^?.:!|]*\.(?=\s)")
UNREAD = re.compile(r"^ *```.*?^ *```$|^    [^\n]*$|`[^`]*`|(?<=\])\([^)]*\)|<[^>\n]*>", re.DOTALL | re.MULTILINE)


def read(text: str) -> str:
    """A text with ``_`` in place of every character that is not prose; lines keep their numbers and lengths."""
    return UNREAD.sub(lambda match: re.sub(r"[^\n]", "_", match[0]), text)


def phrases(name: str, text: str, forbidden: list[tuple[re.Pattern[str], str]]) -> Iterator[str]:
    """The forbidden phrases in a text."""
    prose = read(text)
    for pattern, instead in forbidden:
        for match in pattern.finditer(prose):
            number, words = prose[: match.start()].count("\n") + 1, " ".join(match[0].split())
            yield f"{name}:{number}: {words[:60]} → {instead}"


def faults(name: str, text: str, forbidden=FORBIDDEN) -> Iterator[str]:
    """What is wrong with the words of a text: phrases, and sentences that begin with a clause."""
    return phrases(name, text, [*forbidden, (CLAUSE, "begin with the subject")])


def long_lines(name: str, text: str) -> Iterator[str]:
    """Lines of prose beyond ``WIDTH``; tables, code and links on their own are as long as they need."""
    for number, line in enumerate(read(text).splitlines(), 1):
        if len(line) > WIDTH and " " in line.strip() and not line.lstrip().startswith("|"):
            yield f"{name}:{number}: {len(line)} characters → at most {WIDTH}"


def help_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Place and docstring of each public function in a module of the command: those of commands are their help."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            said = re.sub(r"(?m)^ *Example: .*$", "", ast.get_docstring(node, clean=False) or "")
            yield f"{path.relative_to(ROOT)} {node.name}", said


def messages(path: Path) -> Iterator[tuple[str, str]]:
    """Place and text of each string for people in a module: of three words or more, and not documentation."""
    tree = ast.parse(path.read_text())
    unread = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "_" for part in node.values]
            unread.update(map(id, node.values))
            yield f"{path.relative_to(ROOT)}:{node.lineno}", "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in unread:
            yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def documentation(path: Path) -> Iterator[tuple[str, str]]:
    """Place and text of each docstring and each comment of a module."""
    name = str(path.relative_to(ROOT))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            # Indented lines are no code here.
            text = re.sub(r"(?m)^ *[\w, ]+ : .*$", "", node.value.value)  # names and types of parameters and attributes
            yield f"{name}:{node.lineno}", re.sub(r"(?m)^ +", "", text)
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield f"{name}:{token.start[0]}", token.string.lstrip("# ")


def identifiers(path: Path) -> Iterator[tuple[str, str]]:
    """Place and name of everything that a module defines: functions, classes, parameters, variables, attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.arg(arg=name)
            ):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", name


def named_badly(place: str, name: str) -> Iterator[str]:
    """The words of an identifier that none may be made of."""
    for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name):
        if word.lower() in IN_NAMES:
            yield f"{place}: {name} → {IN_NAMES[word.lower()]}"


def page_text(path: Path) -> tuple[str, str]:
    """Name and text of a template, without its tags and expressions; lines keep their numbers."""
    markup = re.compile(r"\{[{%#].*?[}%#]\}|<[^>]*>", re.DOTALL)
    return str(path.relative_to(ROOT)), markup.sub(lambda match: re.sub(r"[^\n]", "_", match[0]), path.read_text())


def main() -> int:
    pages = [(str(page.relative_to(ROOT)), page.read_text()) for page in PAGES]
    helps = [each for path in COMMANDS for each in help_texts(path)]
    found = [fault for page in [*pages, *helps] for fault in faults(*page)]
    found += [fault for page in pages for fault in long_lines(*page)]
    said = [each for path in PRODUCT for each in messages(path) if len(each[1].split()) > 2]
    said += [page_text(path) for path in TEMPLATES]
    found += [fault for each in said for fault in faults(*each, FORBIDDEN_IN_MESSAGES)]
    written = [each for path in CODE for each in documentation(path)]
    found += [fault for each in written for fault in phrases(*each, FORBIDDEN_IN_CODE)]
    found += [fault for path in CODE for each in identifiers(path) for fault in named_badly(*each)]
    print("\n".join(found) or "the words are plain English")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
