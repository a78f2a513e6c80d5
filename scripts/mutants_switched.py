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
from pathlib import Path
from typing import Any

import solcx
from mutations import Mutation

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
        self._numbers: dict[Mutation, int] = {}

    def batches(self, mutations: Sequence[Mutation]) -> Iterator[list[Mutation]]:
        """The mutations, in as few lists as their places allow; those outside functions are in none."""
        places = self._places(mutations) if mutations else {}
        left = [each for each in mutations if each in places]
        while left:
            batch: list[Mutation] = []
            for each in left:
                if not any(_overlap(each, places[each], other, places[other]) for other in batch):
                    batch.append(each)
            left = [each for each in left if each not in batch]
            yield batch

    def compile(self, batch: Sequence[Mutation]) -> None:
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

    def outcome(self, mutation: Mutation) -> str:
        """How the tests end on a mutant of the batch."""
        arguments = ["--fail-fast", "--block-coinbase", f"0x{self._numbers[mutation]:040x}"]
        if self._failing:
            arguments += ["--no-match-test", "|".join(self._failing)]
        try:
            return "killed" if self._forge("test", *arguments).returncode else "survived"
        except subprocess.TimeoutExpired:
            return "timed out"

    def _forge(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command, environment = [str(self._folder / FORGE), *arguments], {**os.environ, **FEWER}
        return subprocess.run(
            command, cwd=self._folder, env=environment, capture_output=True, text=True, timeout=SECONDS
        )

    def _places(self, mutations: Sequence[Mutation]) -> dict[Mutation, Span]:
        """What is to be replaced for each: the expression or the statement around it, inside a function."""
        names = {name: {"content": source.decode()} for name, source in self._sources.items()}
        request = {"language": "Solidity", "sources": names, "settings": {"outputSelection": {"*": {"": ["ast"]}}}}
        found = solcx.compile_standard(request, solc_binary=self._folder / "scripts/solc")["sources"]
        nodes = {name: list(_inside_functions(found[name]["ast"])) for name in {each.path for each in mutations}}
        around = ((each, _span_of(each, nodes[each.path])) for each in mutations)
        return {each: span for each, span in around if span is not None}


def _span_of(mutation: Mutation, nodes: Sequence[dict]) -> Span | None:
    at = mutation.start
    if mutation.operator == "raise":
        inside = any(_span(node)[0] == at for node in nodes if node["nodeType"] == "RevertStatement")
        return (mutation.start, mutation.end) if inside else None
    for node in nodes:
        if node["nodeType"] == "BinaryOperation":
            if _span(node["leftExpression"])[1] <= at < _span(node["rightExpression"])[0]:
                return _span(node)
        elif node["nodeType"] == "UnaryOperation" and node["operator"] == "!" and _span(node)[0] == at:
            return _span(node)
    return None


def with_switch(source: bytes, mutation: Mutation, span: Span, number: int) -> bytes:
    """The source with a mutant next to what it changes, which is at ``span``."""
    start, end = span
    asked, old = f"block.coinbase == address({number})".encode(), source[start:end]
    if mutation.operator == "raise":
        return source[:start] + b"{ if (!(" + asked + b")) " + old + b" }" + source[end:]
    new = source[start : mutation.start] + mutation.after.encode() + source[mutation.end : end]
    return source[:start] + b"(" + asked + b" ? (" + new + b") : (" + old + b"))" + source[end:]


def _overlap(one: Mutation, first: Span, other: Mutation, second: Span) -> bool:
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
