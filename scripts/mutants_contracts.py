"""Mutants of contracts that are compiled together: which one runs is told by the address that blocks are made for.

To compile the ledger takes longer than most of its tests. So as many changes as do not overlap are written next to what
they change, each behind a question, ``block.coinbase == address(K) ? changed : as it was``, and one compilation serves
them all (Untch, Offutt & Harrold 1993, mutant schemata). Functions that were pure then only view, in the tests as well.
Tests that look at gas fail without a change, and are left out: of every test that fails then no mutant dies.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import solcx

FORGE = "node_modules/@foundry-rs/forge-linux-amd64/bin/forge"
LEFT_OUT = (
    "tests/contracts/LargeOrders.t.sol",
    "tests/contracts/Gas.t.sol",
    "tests/contracts/harness/SeededLedger.sol",
)
"""They compile the ledger a second time, or look at gas only."""
FEWER = {"FOUNDRY_FUZZ_RUNS": "16", "FOUNDRY_INVARIANT_RUNS": "2"}
SECONDS = 1_200

Span = tuple[int, int]
"""First byte, and the one after the last."""

_UNSEEN = re.compile(rb'//[^\n]*|/\*.*?\*/|"[^"\n]*"', re.DOTALL)
_CHANGES = [
    ("comparison", rb" (<) ", "<="),
    ("comparison", rb" (<=) ", "<"),
    ("comparison", rb" (>) ", ">="),
    ("comparison", rb" (>=) ", ">"),
    ("comparison", rb" (==) ", "!="),
    ("comparison", rb" (!=) ", "=="),
    ("boolean", rb" (&&) ", "||"),
    ("boolean", rb" (\|\|) ", "&&"),
    ("arithmetic", rb" (\+) ", "-"),
    ("arithmetic", rb" (-) ", "+"),
    ("not", rb"\((!)\w", ""),
    ("raise", rb"(revert \w[^;]*;)", "{}"),
]


@dataclass(frozen=True)
class Change:
    """One change of a file.

    Attributes
    ----------
    path : str
        Below the repository's root.
    source : str
        First twelve digits of the SHA-256 of the file before the change.
    line, start : int
        Where it begins: the line, and the byte.
    operator : str
        Kind of change.
    before, after : str
        What goes, and what comes in its place; empty where that is known only when it is made.
    """

    path: str
    source: str
    line: int
    operator: str
    start: int
    before: str = ""
    after: str = ""

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What tells it from all others."""
        return self.path, self.source, self.start, self.operator

    @property
    def end(self) -> int:
        """The byte after what goes."""
        return self.start + len(self.before.encode())


def changes_of_contract(path: str, digest: str, source: bytes) -> list[Change]:
    """All changes of a file of Solidity, found by its words outside comments and strings."""
    seen = _UNSEEN.sub(lambda match: re.sub(rb"[^\n]", b" ", match[0]), source)
    found = ((name, match.span(1), new) for name, words, new in _CHANGES for match in re.finditer(words, seen))
    return [
        Change(path, digest, source.count(b"\n", 0, start) + 1, name, start, source[start:end].decode(), new)
        for name, (start, end), new in found
    ]


class Switched:
    """Contracts with several mutants in them, and the tests of all contracts.

    Parameters
    ----------
    folder : Path
        A copy of the tree; its contracts and their tests are written anew.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in LEFT_OUT:
            (folder / "tests/contracts" / name).unlink(missing_ok=True)
        for path in (folder / "tests/contracts").rglob("*.sol"):
            path.write_text(_viewing(path.read_text()))
        self._sources = {
            path.relative_to(folder).as_posix(): path.read_bytes() for path in (folder / "contracts").rglob("*.sol")
        }
        self._failing: list[str] = []
        self._numbers: dict[Change, int] = {}

    def batches(self, changes: Sequence[Change]) -> Iterator[list[Change]]:
        """The changes, in as few lists as their places allow; those outside functions are in none."""
        places = self._places(changes) if changes else {}
        left = [each for each in changes if each in places]
        while left:
            batch: list[Change] = []
            for each in left:
                if not any(_overlap(each, places[each], other, places[other]) for other in batch):
                    batch.append(each)
            left = [each for each in left if each not in batch]
            yield batch

    def compile(self, batch: Sequence[Change]) -> None:
        """Write these mutants into the contracts, and note which tests fail without a change.

        Raises
        ------
        ChildProcessError
            The compiler refuses them; the message is its own.
        """
        places = self._places(batch)
        self._numbers = {each: number for number, each in enumerate(batch, 1)}
        for name, source in self._sources.items():
            own = sorted((each for each in batch if each.path == name), key=lambda each: places[each], reverse=True)
            for each in own:
                source = with_switch(source, each, places[each], self._numbers[each])
            (self._folder / name).write_text(_viewing(source.decode()))
        self._failing = []
        done = self._forge("test", "--json")
        if not done.stdout.startswith("{"):
            raise ChildProcessError(done.stdout + done.stderr)
        suites = json.loads(done.stdout).values()
        results = [result for suite in suites for result in suite["test_results"].items()]
        self._failing = [name.split("(")[0] for name, found in results if found["status"] == "Failure"]

    def outcome(self, change: Change, tests: Sequence[str] = ()) -> tuple[str, str, str]:
        """How the tests, or those of these names, end on a mutant of the batch, what went, and what is in its place."""
        arguments = ["--fail-fast", "--block-coinbase", f"0x{self._numbers[change]:040x}"]
        if tests:
            arguments += ["--match-test", f"^({'|'.join(tests)})\\("]
        if self._failing:
            arguments += ["--no-match-test", "|".join(self._failing)]
        try:
            ended = "killed" if self._forge("test", *arguments).returncode else "survived"
        except subprocess.TimeoutExpired:
            ended = "timed out"
        return ended, change.before, change.after

    def _forge(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command, environment = [str(self._folder / FORGE), *arguments], {**os.environ, **FEWER}
        return subprocess.run(
            command, cwd=self._folder, env=environment, capture_output=True, text=True, timeout=SECONDS
        )

    def _places(self, changes: Sequence[Change]) -> dict[Change, Span]:
        """What is to be replaced for each: the expression or the statement around it, inside a function."""
        names = {name: {"content": source.decode()} for name, source in self._sources.items()}
        request = {"language": "Solidity", "sources": names, "settings": {"outputSelection": {"*": {"": ["ast"]}}}}
        found = solcx.compile_standard(request, solc_binary=self._folder / "scripts/solc")["sources"]
        nodes = {name: list(_inside_functions(found[name]["ast"])) for name in {each.path for each in changes}}
        around = ((each, _span_of(each, nodes[each.path])) for each in changes)
        return {each: span for each, span in around if span is not None}


def _span_of(change: Change, nodes: Sequence[dict]) -> Span | None:
    at = change.start
    if change.operator == "raise":
        inside = any(_span(node)[0] == at for node in nodes if node["nodeType"] == "RevertStatement")
        return (change.start, change.end) if inside else None
    for node in nodes:
        if node["nodeType"] == "BinaryOperation":
            if _span(node["leftExpression"])[1] <= at < _span(node["rightExpression"])[0]:
                return _span(node)
        elif node["nodeType"] == "UnaryOperation" and node["operator"] == "!" and _span(node)[0] == at:
            return _span(node)
    return None


def with_switch(source: bytes, change: Change, span: Span, number: int) -> bytes:
    """The source with a mutant next to what it changes, which is at ``span``."""
    start, end = span
    asked, old = f"block.coinbase == address({number})".encode(), source[start:end]
    if change.operator == "raise":
        return source[:start] + b"{ if (!(" + asked + b")) " + old + b" }" + source[end:]
    new = source[start : change.start] + change.after.encode() + source[change.end : end]
    return source[:start] + b"(" + asked + b" ? (" + new + b") : (" + old + b"))" + source[end:]


def _overlap(one: Change, first: Span, other: Change, second: Span) -> bool:
    return one.path == other.path and first[0] < second[1] and second[0] < first[1]


def _span(node: dict) -> Span:
    start, length, _ = map(int, node["src"].split(":"))
    return start, start + length


def _inside_functions(tree: Any, inside: bool = False) -> Iterator[dict]:
    """Every node of the compiler's syntax tree that is in a function's or a modifier's body."""
    if isinstance(tree, dict):
        inside = inside or tree.get("nodeType") == "Block"
        if inside and "nodeType" in tree:
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from _inside_functions(branch, inside)


def _viewing(text: str) -> str:
    return re.sub(r"\bpure\b", "view", text)
