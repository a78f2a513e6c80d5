"""A copy of the tree in which tests run on mutants.

Tests of Python run in children that are forked from this process, which has imported the libraries and the product: to
start an interpreter and import them takes longer than most tests. A child puts the changed code into the function that
a mutant changes, and imports the product anew where the change is outside any function.
"""

import gc
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from mutants_order import CheapFirst, Recorder
from mutations import Mutation, function_at

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("chain", "contracts", "fedgrove", "ipfs", "node", "scripts", "tests")
IMPORTED = ("chain", "ipfs", "node/base", "node/masking", "node/privacy", "node/learning", "node/protocol")
IMPORTED += ("node/methods", "node/audit", "node/roles", "node/tasks", "node/devnet")
"""Packages whose modules are imported before the first fork. They start no thread."""
LIBRARIES = ("eth_tester.backends.pyevm.main", "hypothesis", "scipy.stats", "sklearn.datasets")

_MEMORY = 6 << 30  # a loop that never ends must not take the machine's
_LONGEST = 300  # by the clock
_NO_TESTS = (4, 5)  # pytest's exit codes where it found none
_PYTEST = ("-q", "-p", "no:cacheprovider", "--basetemp", ".kept")
_PYTEST += ("-p", "xdist", "-p", "pytest_timeout", "-p", "_hypothesis_pytestplugin")


@dataclass
class Copy:
    """A copy of the tree.

    Attributes
    ----------
    folder : Path
    seconds : dict
        Of the processor, as far as known, by pytest's name of a test.
    sound : dict
        Whether tests pass on unchanged code, by their arguments.
    functions : dict
        The product's functions by path, first line and name.
    work : int
        Seconds of the processor that tests may take.
    """

    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)
    sound: dict[tuple[str, ...], bool] = field(default_factory=dict)
    functions: dict[tuple[str, int, str], list[FunctionType]] = field(default_factory=lambda: defaultdict(list))
    work: int = 60
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

    def warm_up(self) -> None:
        """Import libraries and product, so that no child does."""
        sys.path[0] = str(self.folder)  # instead of scripts/
        for name in LIBRARIES:
            importlib.import_module(name)
        for path in (path for package in IMPORTED for path in sorted((self.folder / package).rglob("*.py"))):
            dotted = ".".join(path.relative_to(self.folder).with_suffix("").parts).removesuffix(".__init__")
            importlib.import_module(f"fedgrove.{dotted}")
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(f"{self.folder}/"):
                self.functions[self._named(each.__code__)].append(each)
        gc.freeze()

    def _named(self, code: CodeType) -> tuple[str, int, str]:
        path = code.co_filename.removeprefix(f"{self.folder}/").removeprefix("fedgrove/")
        return path, code.co_firstlineno, code.co_qualname

    def try_mutant(self, mutation: Mutation, tests: Sequence[str]) -> str | None:
        """How tests end on changed code: ``killed``, ``timed out`` or ``survived``.

        None where the test that failed fails on unchanged code, too, or all of them take too long.
        """
        source = (self.folder / mutation.path).read_bytes()
        self.write(mutation.path, mutation.applied(source))
        try:
            outcome, failed = self._run(tests, lambda: self._patched(mutation, source) or _forget_product())
        finally:
            self.write(mutation.path, source)
        return outcome if outcome == "survived" or self._passes(failed or tests) else None

    def _passes(self, tests: Sequence[str]) -> bool:
        """Whether tests pass on unchanged code."""
        if tuple(tests) not in self.sound:
            self.sound[tuple(tests)] = self._run(tests, lambda: None)[0] == "survived"
        return self.sound[tuple(tests)]

    def _run(self, tests: Sequence[str], prepare: Callable[[], object]) -> tuple[str, list[str]]:
        """How tests end after a preparation, and the first that failed."""
        noted = self.folder / ".noted.json"
        noted.unlink(missing_ok=True)

        def work() -> int:
            resource.setrlimit(resource.RLIMIT_CPU, (self.work, self.work + 5))
            prepare()
            return pytest.main(["-x", *_PYTEST, *tests], [CheapFirst(self.seconds), Recorder(noted)])

        outcome = self._wait(_forked(self.folder, work))
        notes = json.loads(noted.read_text()) if noted.exists() else {"seconds": {}, "failed": []}
        self.seconds.update(notes["seconds"])
        return outcome, notes["failed"][:1]

    def _patched(self, mutation: Mutation, source: bytes) -> bool:
        """Put the changed code into the function; False where there is none, or its code does not fit into it."""
        function = function_at(source, mutation)
        if function is None:
            return False
        name = self.folder / "fedgrove" / mutation.path
        before, after = (_codes(compile(text, str(name), "exec")) for text in (source, mutation.applied(source)))
        changed = [code for code in after if code.co_firstlineno == function[1] and code not in before]
        places = [(each, code) for code in changed for each in self.functions[self._named(code)]]
        for each, code in places:
            if len(each.__code__.co_freevars) != len(code.co_freevars):
                return False
            each.__code__ = code
        return bool(places)

    def _wait(self, process: int) -> str:
        began, ended, status = time.monotonic(), 0, 0
        try:
            while not ended and time.monotonic() - began < _LONGEST:
                time.sleep(0.02)
                ended, status = os.waitpid(process, os.WNOHANG)
        finally:
            _end(process, waited=ended != 0)
        code = os.waitstatus_to_exitcode(status)
        if not ended or code == -signal.SIGXCPU:
            return "timed out"
        if code in _NO_TESTS:
            raise FileNotFoundError("pytest found no test: commit new tests first")
        return "killed" if code else "survived"


def _codes(code: CodeType) -> list[CodeType]:
    """A module's code and all that it holds."""
    inside = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [code, *(found for each in inside for found in _codes(each))]


def _forget_product() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "fedgrove"]:
        del sys.modules[name]


def _forked(folder: Path, work: Callable[[], int]) -> int:
    """Run in a child that imports the product from the folder, as do the processes that it starts."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    try:
        os.setsid()
        _settle(folder)
        os._exit(work())
    finally:
        os._exit(1)


def _settle(folder: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.chdir(folder)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.environ.update(PYTHONPATH=str(folder), PATH=path, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    sys.dont_write_bytecode = False


def _end(process: int, waited: bool) -> None:
    """End a test run with all processes that it started."""
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        return  # nothing is left of it
    if not waited:
        os.waitpid(process, 0)
