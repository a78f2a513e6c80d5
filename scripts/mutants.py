"""Change one thing in the product, run the tests that mirror it, and see whether they notice: mutation testing.

    python scripts/mutants.py --total 500         # shared by the packages in proportion to what can be changed
    python scripts/mutants.py --only node/privacy/grid.py --total 20
    python scripts/mutants.py --only node/roles/duplicates.py --again tests/adversary/test_duplicate.py

Cosmic Ray changes Python and runs the tests, in a copy of the tree; ``mutants_contracts`` does so for Solidity. Every
trial is in ``docs/results/mutants/tried.jsonl`` and is not made again while its file stays as it is; a larger
``--total`` goes on where a smaller one stopped. The page next to it lists the survivors, with the reason that
``reasons.toml`` has for each.

Tests of a module are those of its name, or else those that import it, in the folder that mirrors its own or elsewhere,
or else all of that folder. A survivor may still be killed by others: ``--again`` tries survivors with the tests that it
names.
"""

import argparse
import compileall
import functools
import hashlib
import json
import os
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names
from cosmic_ray.testing import run_tests
from cosmic_ray.work_item import TestOutcome
from mutants_contracts import Change, Switched, changes_of_contract
from parso.python.tree import Name

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "results" / "mutants"
PACKAGES = ("contracts", "chain", "ipfs", *(f"node/{name}" for name in ("masking", "privacy", "protocol", "methods")))
PACKAGES += ("node/audit", "node/roles")
COPIED = ("chain", "contracts", "fedgrove", "ipfs", "node", "scripts", "tests")
_PARTS = ("windows", "authors", "joining", "rounds", "bounds")
RULES = tuple(f"tests/node/protocol/test_rules_of_{part}.py" for part in _PARTS)
RULES += ("tests/node/protocol/test_judgements.py", "tests/node/protocol/test_law.py")
COURSE = tuple(f"tests/node/methods/procfl/test_course{part}.py" for part in ("", "_state", "_watch"))
DEADLINES = "tests/node/protocol/test_deadlines.py"
ELSEWHERE = {
    "node/protocol/bounded_rounds.py": RULES,
    "node/protocol/law.py": RULES,
    "node/protocol/chain_facts.py": (DEADLINES, *RULES),
    "node/protocol/rounds.py": (DEADLINES, "tests/node/protocol/test_only_evaluates.py", *RULES),
    "node/methods/procfl/course.py": COURSE,
    "node/methods/procfl/terms.py": ("tests/node/methods/procfl/test_standing.py", *COURSE),
}
"""Tests of modules that have them under other names, too: those of the rules tell one story of records to all of these.
"""
APART = tuple(f"tests/{name}" for name in ("lab", "node/roles/faults", "node/simulation", "node/cli", "node/devnet"))
APART += ("tests/node/explorer",)
"""Tests of whole commands and processes: too slow for every mutant."""
_MEMORY = 6 << 30  # a loop that never ends must not take the machine's


class LeftOut(Operator):
    """Takes a statement of one kind away, as whoever forgets a guard does; Cosmic Ray has no such operator."""

    def __init__(self, kind: str, rest: str) -> None:
        self._kind, self._rest = kind, rest

    def mutation_positions(self, node):
        """Where the statement is; a log's stays, as nobody's rights hang on it."""
        alone = node.type == self._kind and node.parent.type == "simple_stmt"
        if alone and not re.match(r"\s*(\w+\.)*_?log(ger)?\.", node.get_code()):
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        """What is left of the statement."""
        return Name(self._rest, node.start_pos, node.get_first_leaf().prefix)

    @classmethod
    def examples(cls):
        """None: Cosmic Ray asks for them in its own tests."""
        return ()


OPERATORS: dict[str, Operator] = {
    name: get_operator(name)() for name in operator_names() if not get_operator(name).arguments()
}
OPERATORS |= {
    "raise": LeftOut("raise_stmt", "pass"),
    "return": LeftOut("return_stmt", "return None"),
    "call": LeftOut("atom_expr", "pass"),
}


# --- which mutants, and their tests -----------------------------------------------------------------------------------


def sources(package: str) -> list[str]:
    """Its files, below the root."""
    ending = "*.sol" if package == "contracts" else "*.py"
    found = (str(path.relative_to(ROOT)) for path in sorted((ROOT / package).rglob(ending)))
    return [path for path in found if not path.endswith("__init__.py") and "/interfaces/" not in path]


def changes_of(root: Path, path: str) -> list[Change]:
    """All that can be changed in a file; the operators of Python are told apart by the number of their occurrence."""
    source = (root / path).read_bytes()
    digest = hashlib.sha256(source).hexdigest()[:12]
    if path.endswith(".sol"):
        return changes_of_contract(path, digest, source)
    starts = [0, *(match.end() for match in re.finditer(b"\n", source))]
    nodes, found = list(ast_nodes(get_ast(source.decode()))), []
    for name, operator in OPERATORS.items():
        places = (place for node in nodes for place, _ in operator.mutation_positions(node))
        for number, (line, column) in enumerate(places):
            found.append(Change(path, digest, line, f"{name} {number}", starts[line - 1] + column))
    return found


def changed(source: str, change: Change) -> str:
    """A file of Python with a change."""
    name, number = change.operator.split()
    return mutate_code(source, OPERATORS[name], int(number)) or source


def spread(groups: Sequence[Sequence[Change]], total: int) -> list[Change]:
    """The first of each group, as many as are its share of the total, all groups side by side."""
    places = [(place / len(group), each) for group in groups for place, each in enumerate(group)]
    return [change for _, change in sorted(places, key=lambda each: each[0])[:total]]


def tests_of(path: str) -> Sequence[str]:
    """Files or folders with the tests of a module; those of a contract are all of the contracts'."""
    module = Path(path)
    if path.endswith(".sol"):
        return ("tests/contracts",)
    named = f"tests/{module.parent}/test_{module.stem}.py"
    if path in ELSEWHERE or (ROOT / named).exists():
        return ELSEWHERE.get(path, (named,))
    folder = next(each for each in (Path("tests", parent) for parent in module.parents) if (ROOT / each).is_dir())
    package = re.escape(".".join(["fedgrove", *module.parent.parts]))
    imports = re.compile(rf"\b{package}\.{module.stem}\b|from {package} import [^\n]*\b{module.stem}\b")
    importing = [test for test, text in _all_tests().items() if imports.search(text)]
    near = [test for test in _all_tests() if test.startswith(f"{folder}/")]
    return [test for test in importing if test in near] or importing or near


@functools.cache
def _all_tests() -> dict[str, str]:
    """The text of each file of tests that is not apart."""
    found = {str(test.relative_to(ROOT)): test for test in sorted((ROOT / "tests").rglob("test_*.py"))}
    return {name: test.read_text() for name, test in found.items() if not name.startswith(APART)}


# --- trying them ------------------------------------------------------------------------------------------------------


def copied(folder: Path) -> Path:
    """A copy of what tests of the product need, laid out as installed, so that no import leaves it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (name.split("/")[0] in COPIED or "/" not in name) and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for name in ("chain", "ipfs", "node"):
        (folder / "fedgrove" / name).symlink_to(folder / name)
    (folder / "node_modules").symlink_to(ROOT / "node_modules")
    return folder


class Python:
    """Tries changes of Python, one by one, in a copy of the tree.

    Parameters
    ----------
    folder : Path
    seconds : int
        That tests may take; a mutant that takes longer counts as noticed.
    """

    def __init__(self, folder: Path, seconds: int) -> None:
        self._folder, self._seconds = folder, seconds
        self._sound: dict[Sequence[str], bool] = {}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        os.environ.update(PYTHONPATH=str(folder), PATH=path)
        compileall.compile_dir(folder, quiet=2)  # Cosmic Ray lets no test run write what it compiles
        os.chdir(folder)

    def outcome(self, change: Change, tests: Sequence[str]) -> tuple[str, str, str] | None:
        """How the tests end, and the lines that differ; None where the tests fail on unchanged code."""
        if not self._sound.setdefault(tuple(tests), self._run(tests) == "survived"):
            print(f"skipped: the tests of {change.path} fail on unchanged code", file=sys.stderr)
            return None
        file = self._folder / change.path
        source = file.read_text()
        text = changed(source, change)
        try:
            file.write_text(text)
            return self._run(tests), *_lines_that_differ(source, text)
        finally:
            file.write_text(source)

    def _run(self, tests: Sequence[str]) -> str:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        outcome, output = run_tests(shlex.join(command), self._seconds)
        return "timed out" if output == "timeout" else "survived" if outcome is TestOutcome.SURVIVED else "killed"


def _lines_that_differ(before: str, after: str) -> tuple[str, str]:
    """What a change took out of a file and what it put in, to whole lines."""
    old, new = before.splitlines(), after.splitlines()
    first = next((place for place, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), 0)
    last = next((place for place in range(1, len(old) - first + 1) if old[-place] != new[-place]), 1) - 1
    return tuple("\n".join(lines[first : len(lines) - last]).strip() for lines in (old, new))


def tried() -> list[dict]:
    """What stands in the file, in the order in which it was tried."""
    path = OUT / "tried.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def note(change: Change, tests: Sequence[str], trial: Callable[[], tuple[str, str, str] | None], commit: str) -> None:
    """Try a mutant, and keep how its tests ended with the commit and the seconds."""
    began, found = time.monotonic(), trial()
    if found is None:
        return
    outcome, before, after = found
    row = asdict(change) | {"before": before, "after": after, "outcome": outcome, "tests": list(tests)}
    row |= {"seconds": round(time.monotonic() - began, 1), "commit": commit}
    with (OUT / "tried.jsonl").open("a") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(f"{outcome}: {change.path}:{change.line} {after}", flush=True)


def to_try(folder: Path, options: argparse.Namespace) -> list[Change]:
    """What was not tried before, or what survived if that is to be tried again."""
    rows = {(row["path"], row["source"], row["start"], row["operator"]): row["outcome"] for row in tried()}
    paths = [[only] if (ROOT / only).is_file() else sources(only) for only in options.only]
    groups = [[each for path in group for each in changes_of(folder, path)] for group in paths]
    for group in groups:
        random.Random(options.seed).shuffle(group)
    if options.again:
        return [each for group in groups for each in group if rows.get(each.key) == "survived"]
    return [each for each in spread(groups, options.total) if each.key not in rows]


def try_all(folder: Path, changes: Sequence[Change], options: argparse.Namespace) -> None:
    """Try mutants of Python one by one, and then those of contracts, which are compiled together."""
    until = time.monotonic() + 60 * options.minutes
    git = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*"]
    commit = subprocess.run(git, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    python, switched = Python(folder, options.seconds), Switched(folder)
    for change in changes:
        if not change.path.endswith(".sol") and time.monotonic() < until:
            tests = options.again or tests_of(change.path)
            note(change, tests, functools.partial(python.outcome, change, tests), commit)
    for batch in switched.batches([each for each in changes if each.path.endswith(".sol")]):
        if time.monotonic() < until:
            switched.compile(batch)
        for change in batch:
            if time.monotonic() < until:
                note(change, tests_of(change.path), functools.partial(switched.outcome, change), commit)


# --- the page ---------------------------------------------------------------------------------------------------------

_OUTCOMES = ("killed", "timed out", "survived")
_HEAD = """\
# Mutants

Written by `python scripts/mutants.py`, which changes one thing in a copy of the product and runs the tests that mirror
the changed file. A mutant that no test noticed *survived*; one that the tests did not finish with counts as noticed.
`tried.jsonl` has every mutant with its tests, its seconds and the commit.
"""


def latest(rows: Iterable[dict]) -> list[dict]:
    """The last trial of each mutant; one that was tried on a later file, too, counts there alone."""
    last: dict[tuple, dict] = {}
    for row in rows:
        last.pop(_key(row | row.get("earlier", {})), None)
        last[_key(row)] = row
    return list(last.values())


def page(rows: Iterable[dict], reasons: Mapping[str, str]) -> str:
    """A line a package, and a line a survivor with its reason. Of several trials of a mutant, the last counts."""
    rows = latest(rows)
    lines = [_HEAD, "| package | mutants | killed | timed out | survived |", "| --- | --: | --: | --: | --: |"]
    for name in (*PACKAGES, ""):
        counts = Counter(row["outcome"] for row in rows if row["path"].startswith(name))
        counted = " | ".join(str(counts[outcome]) for outcome in _OUTCOMES)
        lines.append(f"| {f'`{name}`' if name else 'all'} | {counts.total()} | {counted} |")
    lines += ["", f"Commits: {', '.join(sorted({row['commit'] for row in rows}))}.", ""]
    lines += ["## Survivors", "", "| where | before | after | why it lives |", "| --- | --- | --- | --- |"]
    living = (row for row in rows if row["outcome"] == "survived")
    for row in sorted(living, key=lambda row: (row["path"], row["start"])):
        name = f"{row['path']}:{row['line']}"
        why = reasons.get(f"{name} {row['after']}", "not looked at yet")
        lines.append(f"| {name} | {_code(row['before'])} | {_code(row['after'])} | {why} |")
    return "\n".join(lines) + "\n"


def _key(row: Mapping) -> tuple:
    return row["path"], row["source"], row["start"], row["operator"], row["after"]


def _code(text: str) -> str:
    short = " ".join(text.split()).replace("|", "\\|")
    return f"`{short if len(short) <= 70 else short[:69] + '…'}`"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--total", type=int, default=50, help="mutants, with those that were tried before; 0: the page")
    parser.add_argument("--only", nargs="*", default=PACKAGES, help="packages, or files")
    parser.add_argument("--again", nargs="+", help="try survivors again, with these tests")
    parser.add_argument("--seed", type=int, default=0, help="gives the order of the mutants")
    parser.add_argument("--minutes", type=float, default=600, help="no mutant is begun after this many")
    parser.add_argument("--seconds", type=int, default=120, help="that the tests of a mutant may take")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    with tempfile.TemporaryDirectory(prefix="fedgrove-mutants-") as name:
        folder = copied(Path(name).resolve())
        try_all(folder, to_try(folder, options), options)
    (OUT / "README.md").write_text(page(tried(), tomllib.loads((OUT / "reasons.toml").read_text())))


if __name__ == "__main__":
    main()
