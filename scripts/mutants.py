"""Change one thing in the product, run the tests that mirror it, and see whether they notice: mutation testing.

    python scripts/mutants.py --each 5            # five mutants a package, in the order that --seed gives
    python scripts/mutants.py --only node/privacy/grid.py --each 20
    python scripts/mutants.py --report            # only write the page anew

Each mutant is made in a copy of the tree. What was tried stands in ``docs/results/mutants/tried.jsonl`` and is not
tried again while its file stays as it is; a larger ``--each`` goes on where a smaller one stopped. Survivors are
listed on the page beside it, with the reason that ``reasons.toml`` has for each.

Tests of a module are those of its name, or else those in the folder that mirrors its own that import it, or else all
of that folder. A mutant that survives them may still be killed by the rest of the suite.
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path

from mutants_page import PACKAGES, page
from mutations import Mutation, mutations_of

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "results" / "mutants"
COPIED = ("chain", "contracts", "fedgrove", "ipfs", "node", "scripts", "tests")
FORGE = "node_modules/@foundry-rs/forge-linux-amd64/bin/forge"
ELSEWHERE = {"node/protocol/ledger_rules.py": ("tests/node/audit", "tests/node/protocol/test_lawful_histories.py")}
"""Tests of modules that are tested where they are used."""

_MEMORY = 6 << 30  # a loop that never ends must not take the machine's
_SPARE_SECONDS = 20
_SLOWER = 4  # a mutant may take this many times as long as the unchanged code
_NO_TESTS = (4, 5)  # pytest's exit codes where it found none


@dataclass
class Copy:
    """A copy of the tree in which tests run.

    Attributes
    ----------
    folder : Path
    baselines : dict
        Seconds that tests took on unchanged code; None where they fail.
    """

    folder: Path
    baselines: dict[tuple[str, ...], float | None] = field(default_factory=dict)
    _times: Iterable[int] = field(default_factory=lambda: count(1_000_000_000))

    @classmethod
    def below(cls, folder: Path) -> "Copy":
        """Copy what tests of the product need. ``fedgrove`` is laid out as installed, so that no import leaves it."""
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            if (name.split("/")[0] in COPIED or "/" not in name) and (ROOT / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        for name in ("chain", "ipfs", "node"):
            (folder / "fedgrove" / name).symlink_to(folder / name)
        (folder / "node_modules").symlink_to(ROOT / "node_modules")
        return cls(folder)

    def write(self, path: str, data: bytes) -> None:
        """Replace a file. Its time is new: two mutants may be of one length, and compiled modules are kept by both."""
        (self.folder / path).write_bytes(data)
        stamp = next(iter(self._times))
        os.utime(self.folder / path, (stamp, stamp))

    def baseline(self, tests: tuple[str, ...]) -> float | None:
        """Seconds of the tests on unchanged code; None where they fail."""
        if tests not in self.baselines:
            outcome, seconds = self.run(tests, 900)
            self.baselines[tests] = seconds if outcome == "survived" else None
        return self.baselines[tests]

    def run(self, tests: tuple[str, ...], limit: float) -> tuple[str, float]:
        """How the tests end, and after how many seconds."""
        if tests[0].startswith("--match-path"):
            command = [str(ROOT / FORGE), "test", "--fail-fast", *tests[0].split()]
        else:
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_limit_memory,
        )
        try:
            code = process.wait(limit)
            if code in _NO_TESTS:
                raise FileNotFoundError(f"{' '.join(command)} runs no test: commit new tests first")
            outcome = "killed" if code else "survived"
        except subprocess.TimeoutExpired:
            outcome = "timed out"
        finally:
            _end(process)
        return outcome, time.monotonic() - began

    def _environment(self) -> dict[str, str]:
        """Modules are kept compiled, and every process of a test imports from the copy."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
        return {**kept, "PYTHONPATH": str(self.folder), "PATH": path}


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))


def _end(process: subprocess.Popen) -> None:
    """End a test run with all processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # nothing is left of it
    process.wait()


# --- which mutants, and their tests -----------------------------------------------------------------------------------


def sources(package: str) -> list[str]:
    """Its files, below the root."""
    ending = "*.sol" if package == "contracts" else "*.py"
    found = (str(path.relative_to(ROOT)) for path in sorted((ROOT / package).rglob(ending)))
    return [path for path in found if not path.endswith("__init__.py") and "/interfaces/" not in path]


def chosen(root: Path, paths: Iterable[str], seed: int, most: int) -> list[Mutation]:
    """The first ``most`` mutations of these files in the order of a seed."""
    found = [each for path in paths for each in mutations_of(root, path)]
    random.Random(seed).shuffle(found)
    return found[:most]


def tests_of(path: str) -> tuple[str, ...]:
    """Arguments that run the tests of a module: files for pytest, or a pattern for forge."""
    module = Path(path)
    if path.endswith(".sol"):
        own = sorted((ROOT / "tests/contracts").glob("*.t.sol"))
        named = [test.name for test in own if re.search(rf"\b{module.stem}\b", test.read_text())]
        return (f"--match-path tests/contracts/{{{','.join(named)}}}" if named else "--match-path tests/contracts/*",)
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    folder = ROOT / "tests" / module.parent
    named = folder / f"test_{module.stem}.py"
    if named.exists():
        return (str(named.relative_to(ROOT)),)
    while not folder.is_dir():
        folder = folder.parent
    importing = [test for test in sorted(folder.rglob("test_*.py")) if _imports(test.read_text(), module)]
    return tuple(str(test.relative_to(ROOT)) for test in importing or [folder])


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


def key(row: dict) -> tuple:
    """What makes two rows one mutant."""
    return row["path"], row["source"], row["start"], row["operator"], row["after"]


def attempt(copy: Copy, mutation: Mutation) -> dict | None:
    """Try a mutant; None where the tests fail without it."""
    tests = tests_of(mutation.path)
    seconds = copy.baseline(tests)
    if seconds is None:
        print(f"skipped: {' '.join(tests)} fail on unchanged code", file=sys.stderr)
        return None
    source = (copy.folder / mutation.path).read_bytes()
    copy.write(mutation.path, mutation.applied(source))
    try:
        outcome, took = copy.run(tests, _SPARE_SECONDS + _SLOWER * seconds)
    finally:
        copy.write(mutation.path, source)
    return {**asdict(mutation), "outcome": outcome, "seconds": round(took, 1), "tests": list(tests)}


def commit() -> str:
    """The commit that is checked out."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def try_all(paths: Sequence[str], seed: int, most: int, minutes: float) -> None:
    """Try what was not tried before, and note each as soon as it is known."""
    known, until, of = {key(row) for row in tried()}, time.monotonic() + 60 * minutes, commit()
    with tempfile.TemporaryDirectory(prefix="fedgrove-mutants-") as name:
        copy = Copy.below(Path(name).resolve())
        left = [each for each in chosen(copy.folder, paths, seed, most) if key(asdict(each)) not in known]
        for number, mutation in enumerate(left, 1):
            if time.monotonic() > until:
                print(f"time is up: {len(left) - number + 1} are left", file=sys.stderr)
                return
            row = attempt(copy, mutation)
            if row is not None:
                with (OUT / "tried.jsonl").open("a") as file:
                    file.write(json.dumps({**row, "commit": of}, ensure_ascii=False) + "\n")
                print(f"{number}/{len(left)} {row['outcome']}: {mutation.name}", flush=True)


# --- the command ------------------------------------------------------------------------------------------------------


def write_page() -> None:
    """Write the page of what was tried on the files as they are, or as they were."""
    reasons = tomllib.loads((OUT / "reasons.toml").read_text()) if (OUT / "reasons.toml").exists() else {}
    (OUT / "README.md").write_text(page(tried(), reasons))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=5, help="mutants of each package")
    parser.add_argument("--only", nargs="*", default=PACKAGES, help="packages, or files")
    parser.add_argument("--seed", type=int, default=0, help="gives the order of the mutants")
    parser.add_argument("--minutes", type=float, default=600, help="no mutant of a package is begun after this many")
    parser.add_argument("--report", action="store_true", help="try nothing, write the page")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that a test run ends with this
    OUT.mkdir(parents=True, exist_ok=True)
    for only in [] if options.report else options.only:
        paths = [only] if (ROOT / only).is_file() else sources(only)
        try_all(paths, options.seed, options.each, options.minutes)
    write_page()
    return 0


if __name__ == "__main__":
    sys.exit(main())
