"""What a demonstration needs to go on where it was: a folder next to its directory, which goes when the run is done.

It is not in the directory, which an audit accounts for and people pass on: it holds the members' keys and journals. As
its name can be guessed, a folder that another account made, or may write to, is refused: it could say what code to run.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from fedgrove.chain.crypto.keys import Keys, load, save
from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.errors import InvalidContent, InvalidInput, RunFailed
from fedgrove.common.regular_file import read_regular
from fedgrove.common.wire import canonical_json, decode, parse_json
from fedgrove.node.base.files import exclusive, write_atomically
from fedgrove.node.base.strict_tables import build
from fedgrove.node.protocol.terms import StartSettings
from fedgrove.node.scenario.scenario import Scenario

Kept = TypeVar("Kept")

_OPTIONS, _DEPLOYMENT, _SECONDS, _START = "options.json", "deployment.json", "seconds.json", "start.json"
_MAX_BYTES = 1 << 26
_PASSWORD, _COST = "demonstration", 2  # the folder's mode is what protects these keys, of test money


class RunState:
    """One folder, readable by its owner only.

    Parameters
    ----------
    root : Path
        Made when something is first kept in it.

    Attributes
    ----------
    chain, kubo : Path
        Where a chain and a Kubo node of the run's own are kept.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.chain, self.kubo = root / "chain", root / "kubo"

    @classmethod
    def next_to(cls, directory: Path) -> "RunState":
        """State of the run in a directory."""
        place = Path(os.path.realpath(directory))  # unlike ``resolve``, it takes links that lead in a circle
        return cls(place.with_name(f"{place.name}.unfinished"))

    @property
    def begun(self) -> bool:
        """There is a run to go on with."""
        return (self.root / _OPTIONS).exists()

    @property
    def founded(self) -> bool:
        """The run's contracts are deployed."""
        return (self.root / _DEPLOYMENT).exists()

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Own the state while the block runs.

        Raises
        ------
        RunFailed
        """
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._check_own()
        with exclusive(self.root):
            yield

    def keep_scenario(self, scenario: Scenario) -> None:
        """Keep what the run was asked for; from now on it has begun."""
        self._write(_OPTIONS, canonical_json(scenario.absolute().to_tables()))

    def scenario(self) -> Scenario:
        """What the run was asked for. Raises RunFailed."""
        return self._read(_OPTIONS, lambda data: Scenario.from_tables(parse_json(data)))

    def keep_start(self, start: StartSettings) -> None:
        """Keep what the run continues from; the model is in its store."""
        self._write(_START, canonical_json(asdict(start)))

    def start(self) -> StartSettings | None:
        """What the run continues from; None where it begins with a model of its own. Raises RunFailed."""
        if not (self.root / _START).exists():
            return None
        return self._read(_START, lambda data: build(StartSettings, parse_json(data), "start"))

    def keys(self, name: str) -> Keys:
        """Keys of a role, made when they are asked for first."""
        path = self.root / "keys" / f"{name}.json"
        if path.exists():
            return load(path, _PASSWORD)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        keys = Keys.generate()
        save(path, keys, _PASSWORD, _COST)
        return keys

    def journal(self, name: str) -> Path:
        """Where a client keeps its journal."""
        return self.root / name

    def keep_deployment(self, deployment: Deployment) -> None:
        """Keep where the contracts are."""
        self._write(_DEPLOYMENT, deployment.to_json().encode())

    def deployment(self) -> Deployment | None:
        """Where the contracts are; None before they are deployed. Raises RunFailed."""
        return self._read(_DEPLOYMENT, lambda data: Deployment.from_json(data.decode())) if self.founded else None

    def keep_seconds(self, seconds: dict[int, float]) -> None:
        """Keep how long each round has taken."""
        self._write(_SECONDS, canonical_json(seconds))

    def seconds(self) -> dict[int, float]:
        """How long each round has taken. Raises RunFailed."""
        if not (self.root / _SECONDS).exists():
            return {}
        return self._read(_SECONDS, lambda data: decode(dict[int, float], data, _MAX_BYTES))

    def end(self) -> None:
        """The run is done: there is nothing to go on with any more."""
        (self.root / _OPTIONS).unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove the folder."""
        self.end()  # first, so that nobody takes a part of it for a run
        shutil.rmtree(self.root, ignore_errors=True)

    def _write(self, name: str, data: bytes) -> None:
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(self.root / name, data, mode=0o600)

    def _check_own(self) -> None:
        """Raise RunFailed unless the folder is this account's alone; a link to one is not."""
        found = self.root.lstat()
        shared = found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if shared or not stat.S_ISDIR(found.st_mode):
            raise RunFailed(f"another account can write to {self.root}: give a directory in a folder of your own")

    def _read(self, name: str, parse: Callable[[bytes], Kept]) -> Kept:
        """What is made of a file. Raises RunFailed."""
        self._check_own()
        try:
            return parse(read_regular(self.root / name, _MAX_BYTES, follow=False))
        except (OSError, UnicodeDecodeError, InvalidContent, InvalidInput):
            raise RunFailed(f"{self.root / name} cannot be read: remove {self.root}, and begin a new run") from None
