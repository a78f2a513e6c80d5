"""Change one thing in the product, run the tests that mirror it, and see whether they notice: mutation testing.

    python scripts/mutants.py --total 500         # shared by the packages in proportion to what can be changed
    python scripts/mutants.py --only node/privacy/grid.py --total 20
    python scripts/mutants.py --again --only node/privacy      # survivors only
    python scripts/mutants.py --again tests/adversary/test_duplicate.py --only node/roles/duplicates.py  # these tests
    python scripts/mutants.py --report            # only write the page anew

Each mutant is made in a copy of the tree. What was tried stands in ``docs/results/mutants/tried.jsonl`` and is not
tried again while its file stays as it is; a larger ``--total`` goes on where a smaller one stopped. Survivors are
listed on the page next to it, with the reason that ``reasons.toml`` has for each.

Tests of a module are those of its name, or else those in the folder that mirrors its own that import it, or else those
anywhere that import it, or else all of that folder. Those of a contract are forge's, for all contracts. A mutant that
survives them may still be killed by the rest of the suite: ``--again`` with tests tries those. A survivor whose file
has changed since is tried in the line that reads the same today; that trial takes the place of the earlier one on the
page.
"""

import argparse
import hashlib
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path

from mutants_copy import ROOT, Copy
from mutants_page import PACKAGES, key, latest, page
from mutants_switched import Switched
from mutations import Mutation, mutations_of

OUT = ROOT / "docs" / "results" / "mutants"
RULES = [
    f"tests/node/protocol/test_rules_of_{part}.py" for part in ("windows", "authors", "joining", "rounds", "disputes")
]
COURSE = [f"tests/node/methods/procfl/test_course{part}.py" for part in ("", "_state", "_watch")]
ELSEWHERE = {
    f"node/protocol/{module}.py": [f"tests/node/protocol/test_{test}.py" for test in ("law", *also)] + RULES
    for module, also in {
        "law": (),
        "chain_facts": ("deadlines",),
        "rounds": ("deadlines", "only_evaluates"),
    }.items()
} | {
    "chain/face/ledger.py": [
        f"tests/chain/face/test_ledger{part}.py" for part in ("", "_draws", "_endings", "_members")
    ],
    "node/methods/procfl/course.py": COURSE,
    "node/methods/procfl/terms.py": ["tests/node/methods/procfl/test_standing.py", *COURSE],
}
"""Tests of modules that have them under other names, too: those of the rules tell one story of records to all of these.
"""
APART = (
    "tests/node/roles/faults",
    "tests/lab",
    "tests/node/simulation",
    "tests/node/cli",
    "tests/node/devnet",
    "tests/node/explorer",
)
"""Tests of whole commands and processes: too slow for every mutant."""

Earlier = dict[str, str | int] | None
"""Where a mutant stood in an earlier file, when it was tried there first."""

# --- which mutants, and their tests -----------------------------------------------------------------------------------


def sources(package: str) -> list[str]:
    """Its files, below the root."""
    ending = "*.sol" if package == "contracts" else "*.py"
    found = (str(path.relative_to(ROOT)) for path in sorted((ROOT / package).rglob(ending)))
    return [path for path in found if not path.endswith("__init__.py") and "/interfaces/" not in path]


def chosen(root: Path, paths: Iterable[str], seed: int) -> list[Mutation]:
    """All mutations of these files in the order of a seed."""
    found = [each for path in paths for each in mutations_of(root, path)]
    random.Random(seed).shuffle(found)
    return found


def spread(groups: Sequence[Sequence[Mutation]], total: int) -> list[Mutation]:
    """The first of each group, as many as are its share of the total, all groups side by side."""
    whole = sum(map(len, groups))
    places = [(place / len(group), each) for group in groups for place, each in enumerate(group)]
    places.sort(key=lambda each: each[0])
    return [mutation for _, mutation in places[: min(total, whole)]]


def tests_of(path: str) -> list[str]:
    """Files or folders with the tests of a module; those of a contract are all of the contracts'."""
    module = Path(path)
    if path.endswith(".sol"):
        return ["tests/contracts"]
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    folder = ROOT / "tests" / module.parent
    named = folder / f"test_{module.stem}.py"
    if named.exists():
        return [str(named.relative_to(ROOT))]
    while not folder.is_dir():
        folder = folder.parent
    next_to = f"{folder.relative_to(ROOT)}/"
    anywhere = importing(path)
    return [test for test in anywhere if test.startswith(next_to)] or anywhere or _files(folder)


@cache
def importing(path: str) -> list[str]:
    """Files of tests that import a module."""
    return [test for test in _files(ROOT / "tests") if _imports((ROOT / test).read_text(), Path(path))]


def _files(folder: Path) -> list[str]:
    found = [str(test.relative_to(ROOT)) for test in sorted(folder.rglob("test_*.py"))]
    return [test for test in found if not test.startswith(APART)]


def _imports(text: str, module: Path) -> bool:
    package = ".".join(["fedgrove", *module.parent.parts])
    alone, together = (
        re.escape(f"{package}.{module.stem}"),
        rf"from {re.escape(package)} import [^\n]*\b{module.stem}\b",
    )
    return re.search(rf"\b{alone}\b|{together}", text) is not None


# --- trying them ------------------------------------------------------------------------------------------------------


def tried() -> list[dict]:
    """What stands in the file, in the order in which it was tried."""
    path = OUT / "tried.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def attempt(copy: Copy, mutation: Mutation, tests: Sequence[str]) -> str | None:
    """Try a mutant; None where the tests fail without it."""
    outcome = copy.try_mutant(mutation, tests)
    if outcome is None:
        print(f"skipped: the tests of {mutation.path} fail on unchanged code", file=sys.stderr)
    return outcome


def tests_for(path: str, again: Sequence[str] | None) -> Sequence[str]:
    """Those that are asked for, or else those that mirror a module."""
    return again or tests_of(path)


def commit() -> str:
    """The commit that is checked out."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def note(mutation: Mutation, earlier: Earlier, tests: Sequence[str], trial: Callable[[], str | None], of: str) -> None:
    """Try a mutant, and keep how its tests ended with the commit and the seconds."""
    began, outcome = time.monotonic(), trial()
    if outcome is not None:
        took = {"seconds": round(time.monotonic() - began, 1), "tests": list(tests), "commit": of}
        took |= {"earlier": earlier} if earlier else {}
        with (OUT / "tried.jsonl").open("a") as file:
            file.write(json.dumps({**asdict(mutation), "outcome": outcome, **took}, ensure_ascii=False) + "\n")
        print(f"{outcome}: {mutation.name}", flush=True)


def try_all(copy: Copy, mutations: Mapping[Mutation, Earlier], options: argparse.Namespace) -> None:
    """Try mutants of Python one by one, and then those of contracts, which are compiled together."""
    until, of = time.monotonic() + 60 * options.minutes, commit()
    contracts = [each for each in mutations if each.path.endswith(".sol")]
    others = [each for each in mutations if each not in contracts]
    if others:
        copy.warm_up()
    for mutation in others:
        if time.monotonic() < until:
            tests = tests_for(mutation.path, options.again)
            note(mutation, mutations[mutation], tests, partial(attempt, copy, mutation, tests), of)
    switched = Switched(copy.folder)
    for batch in switched.batches(contracts):
        if time.monotonic() < until:
            switched.compile(batch)
        for mutation in batch:
            if time.monotonic() < until:
                trial = partial(switched.outcome, mutation)
                note(mutation, mutations[mutation], tests_of(mutation.path), trial, of)
    if time.monotonic() >= until:
        print("time is up", file=sys.stderr)


def to_try(copy: Copy, options: argparse.Namespace) -> dict[Mutation, Earlier]:
    """What was not tried before, or what survived if it is to be tried again."""
    rows = tried()
    paths = [[only] if (ROOT / only).is_file() else sources(only) for only in options.only]
    groups = [chosen(copy.folder, group, options.seed) for group in paths if group]
    if options.again is not None:
        return survivors(rows, [each for group in groups for each in group], copy.folder)
    known = {key(row) for row in rows}
    return {each: None for each in spread(groups, options.total) if key(asdict(each)) not in known}


def survivors(rows: Sequence[dict], mutations: Iterable[Mutation], root: Path) -> dict[Mutation, Earlier]:
    """Those of the mutations that survived: on their files, or on earlier ones in a line that reads the same today."""
    same = defaultdict(list)
    for each in mutations:
        same[each.path, each.operator, each.before, each.after].append(each)
    found: dict[Mutation, Earlier] = {}
    for row in latest(rows):
        candidates = same[row["path"], row["operator"], row["before"], row["after"]]
        if row["outcome"] != "survived" or not candidates:
            continue
        now = [each for each in candidates if (each.source, each.start) == (row["source"], row["start"])]
        then = None if now else text_of(row["path"], row["source"])
        if now:
            found[now[0]] = None
        elif then is not None:
            line, column = _line(then, row["start"])
            alike = [
                each for each in candidates if _line((root / each.path).read_bytes(), each.start) == (line, column)
            ]
            if alike:
                nearest = min(alike, key=lambda each: abs(each.line - row["line"]))
                found[nearest] = {"source": row["source"], "start": row["start"]}
    return found


def text_of(path: str, digest: str) -> bytes | None:
    """A file as some commit has it, by the first digits of its SHA-256."""
    git = partial(subprocess.run, cwd=ROOT, check=True, capture_output=True)
    for of in git(["git", "log", "--format=%h", "--diff-filter=AMR", "--", path]).stdout.decode().split():
        text = git(["git", "show", f"{of}:{path}"]).stdout
        if hashlib.sha256(text).hexdigest().startswith(digest):
            return text
    return None


def _line(text: bytes, place: int) -> tuple[bytes, int]:
    """The line around a place, and the place's column in it."""
    start = text.rfind(b"\n", 0, place) + 1
    return text[start:].split(b"\n", 1)[0], place - start


# --- the command ------------------------------------------------------------------------------------------------------


def write_page() -> None:
    """Write the page of what was tried on the files as they are, or as they were."""
    reasons = tomllib.loads((OUT / "reasons.toml").read_text()) if (OUT / "reasons.toml").exists() else {}
    (OUT / "README.md").write_text(page(tried(), reasons))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--total", type=int, default=50, help="mutants, with those that were tried before")
    parser.add_argument("--only", nargs="*", default=PACKAGES, help="packages, or files")
    parser.add_argument(
        "--again", nargs="*", help="try survivors again, with these tests, or with those that mirror the module"
    )
    parser.add_argument("--seed", type=int, default=0, help="gives the order of the mutants")
    parser.add_argument("--minutes", type=float, default=600, help="no mutant is begun after this many")
    parser.add_argument("--work", type=int, default=60, help="seconds of the processor that a mutant may take")
    parser.add_argument("--report", action="store_true", help="try nothing, write the page")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that a test run ends with this
    OUT.mkdir(parents=True, exist_ok=True)
    if not options.report:
        with tempfile.TemporaryDirectory(prefix="fedgrove-mutants-") as name:
            copy = Copy.below(Path(name).resolve())
            copy.work = options.work
            try_all(copy, to_try(copy, options), options)
    write_page()
    return 0


if __name__ == "__main__":
    sys.exit(main())
