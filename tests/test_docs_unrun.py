"""Commands of the documentation that no test runs: each says why, and when somebody last ran it; all can be parsed."""

import re
import shlex
from collections.abc import Iterator
from itertools import chain

import pytest

from fedgrove.node.cli.main import command_line
from fedgrove_lab.made import read_made
from tests.test_docs import PAGES, ROOT

COMMAND = re.compile(r"^ *(?:fedgrove|python|pip|make|dask|\.venv/bin/\w+) +[\w.\"'-]+(?:[^/]|$)", re.MULTILINE)
MARK = re.compile(r"<!-- not run by a test: .+; last run by hand: (?:20\d\d-\d\d-\d\d|none on record) -->")
RESULTS = ROOT / "docs" / "results"
# Pages of results state their commands with the commit that ran them.
WRITTEN = [page for page in PAGES if RESULTS not in page.parents]


def unrun(text: str) -> Iterator[tuple[str, str]]:
    """Blocks that no shell runs (indented, or fenced and not ``sh``), each with the last line above it."""
    above, kind, block = "", "", []
    for line in [*text.splitlines(), ""]:
        if kind == "indented" and line.strip() and not line.startswith("    "):
            yield above, "\n".join(block)
            above, kind, block = line, "", []
        if kind in ("", "indented") and line.startswith("    ") and (kind or not above.strip().startswith(("-", "1"))):
            kind = "indented"
            block.append(line[4:])
        elif line.startswith("```"):
            if kind not in ("", "```sh", "```python", "```toml"):
                yield above, "\n".join(block)
            above, kind, block = (line, "", []) if kind else (above, line, [])
        elif kind.startswith("```"):
            block.append(line)
        elif line.strip():
            above = line
    if kind == "indented":
        yield above, "\n".join(block)


def unrun_commands() -> list[tuple[str, str, str]]:
    """Page, the line above, and the block, of all blocks with a command in them."""
    found = ((page.name, *each) for page in WRITTEN for each in unrun(page.read_text()))
    return [(name, above, block) for name, above, block in found if COMMAND.search(block)]


@pytest.mark.parametrize(("page", "above", "block"), unrun_commands())
def test_a_block_that_no_test_runs_says_why_and_when_somebody_ran_it(page, above, block):
    assert MARK.fullmatch(above), f"{page}: before {block!r} stands {above!r}"


def lines_of(block: str) -> list[list[str]]:
    """The words of the ``fedgrove`` commands in a block."""
    joined = block.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in joined if line.lstrip().startswith("fedgrove ")]


@pytest.mark.parametrize(("page", "above", "block"), unrun_commands())
def test_commands_that_no_test_runs_have_the_options_that_they_name(page, above, block):
    for words in lines_of(block):
        command = command_line
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context(command.name, words)  # raises for an option that does not exist


def test_blocks_are_found_however_they_are_written():
    """Else this would check nothing."""
    indented, fenced = "One\n\n    fedgrove demo\n    fedgrove audit x\n\nTwo\n", "```text\nmake demo\n```\n"
    text = f"{indented}\n{fenced}\n```sh\nls\n```\n\n```\nput\n```\n"
    assert list(unrun(text)) == [("One", "fedgrove demo\nfedgrove audit x"), ("Two", "make demo"), ("```", "put")]
    assert len(unrun_commands()) >= 8


def test_the_page_of_experiments_has_the_commands_that_made_the_results():
    (block,) = (block for page, _, block in unrun_commands() if page == "experiments.md")
    commands = (line.split(" --out ")[0] for line in block.splitlines())
    folders = (path.parent for path in sorted(RESULTS.glob("*/made.json")) if path.parent.name != "attacks")
    assert sorted(commands) == sorted(each.command for each in chain.from_iterable(map(read_made, folders)))
