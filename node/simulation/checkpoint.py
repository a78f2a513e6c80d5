"""A run on disk: after each round one file that is old or new, never in part, and what strategies keep for clients.

``checkpoint.safetensors`` holds the global model and, as metadata, the record so far. A client's state has a file of
its own a round, ``states/CLIENT-ROUND``. Those of a round are written while the round goes on, before the checkpoint
that makes them count, and the ones they replace are removed after it. So whenever the process dies, the checkpoint
finds the states that belong to it; later ones are of a round that will be run again.
"""

import hashlib
import json
import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.files import sync_directory, write_atomically
from fedgrove.node.base.tensors import Tensors, dump, load
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.record import RunRecord

CHECKPOINT = "checkpoint.safetensors"
RECORD = "record.json"
STATES = "states"
METADATA = "fedgrove"
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class Checkpoint:
    """The record so far and the global model after its last round."""

    record: RunRecord
    tensors: Tensors


def check_directory(directory: Path, scenario: Scenario, resume: bool) -> None:
    """See that a run of this scenario may begin, or with ``resume`` go on, in a directory; nothing is changed.

    Raises
    ------
    InvalidInput
        It holds a run of another scenario, or one and ``resume`` is off, or its checkpoint is damaged.
    """
    path = directory / CHECKPOINT
    if not path.exists():
        return
    record = RunRecord.from_json(_parse(path)[0]["record"])
    if record.scenario.digest() != scenario.digest():
        raise InvalidInput(f"{directory} holds a run of another scenario: give another directory")
    if not resume:
        done = len(record.rounds)
        raise InvalidInput(f"{directory} holds this run up to round {done}: resume it, or give another directory")


def rounds_done(directory: Path) -> int:
    """How many rounds of a run stand in a directory; InvalidContent where its checkpoint is damaged."""
    path = directory / CHECKPOINT
    return len(_parse(path)[0]["record"]["rounds"]) if path.exists() else 0


def begin_with(source: Path, directory: Path, scenario: Scenario) -> None:
    """Let a run of ``scenario`` begin with the rounds of the run in ``source``, whose rounds so far are the same.

    Raises
    ------
    InvalidContent
        The source's checkpoint is missing or damaged.
    """
    document, tensors = _parse(source / CHECKPOINT)
    document["record"]["scenario"] = scenario.to_json()
    shutil.copytree(source / STATES, directory / STATES, dirs_exist_ok=True)
    sync_directory(directory / STATES)
    _write(directory, document, tensors)


class RunDirectory:
    """The files of one run.

    Parameters
    ----------
    directory : Path
        Where they stand; it belongs to this process (``node.base.files.exclusive``).
    """

    def __init__(self, directory: Path, scenario: Scenario, data: str) -> None:
        self._directory = directory
        self._scenario = scenario
        self._data = data
        self._states: dict[int, list[int]] = {}

    def load(self, resume: bool) -> Checkpoint | None:
        """The last checkpoint, with the clients' states as they were then; None where there is none.

        Raises
        ------
        InvalidContent
            It is damaged, of another scenario or other data, or it is there and ``resume`` is off.
        """
        check_directory(self._directory, self._scenario, resume)
        (self._directory / STATES).mkdir(exist_ok=True)
        path = self._directory / CHECKPOINT
        if not path.exists():
            self._keep_states(0)
            return None
        document, tensors = _parse(path)
        if document["data"] != self._data:
            raise InvalidInput(f"{self._directory} holds a run on other data: give another directory")
        record = RunRecord.from_json(document["record"])
        self._keep_states(len(record.rounds))
        if self._digest_of_states() != document["states"]:
            raise InvalidContent(f"clients' states are missing in {self._directory / STATES}: start the run anew")
        return Checkpoint(record, tensors)

    def save(self, record: RunRecord, tensors: Tensors) -> None:
        """Make a round's result durable; states that it replaces are removed."""
        replaced = [(client, number) for client, numbers in self._states.items() for number in numbers[:-1]]
        self._states = {client: numbers[-1:] for client, numbers in self._states.items()}
        if self._states:
            sync_directory(self._directory / STATES)
        document = {"record": record.to_json(), "data": self._data, "states": self._digest_of_states()}
        _write(self._directory, document, tensors)
        for client, number in replaced:
            self._state_path(client, number).unlink(missing_ok=True)

    def finish(self, record: RunRecord) -> None:
        """Leave the record of a whole run."""
        write_atomically(self._directory / RECORD, record.to_bytes())

    def state(self, client: int, before: float = math.inf) -> Tensors:
        """What a client's last round, or the last ``before`` a round, left; else empty; InvalidContent if damaged."""
        numbers = [number for number in self._states.get(client, ()) if number < before]
        if not numbers:
            return {}
        path = self._state_path(client, numbers[-1])
        try:
            content = path.read_bytes()
            if hashlib.sha256(content[_DIGEST_BYTES:]).digest() != content[:_DIGEST_BYTES]:
                raise InvalidContent("wrong digest")
            return load(content[_DIGEST_BYTES:])
        except (OSError, InvalidContent) as fault:
            raise InvalidContent(f"the state of client {client} in {path} is damaged: {fault}") from None

    def keep_state(self, number: int, client: int, state: Tensors) -> None:
        """Write what a client's round left. It counts from the round's checkpoint on."""
        if not state:
            return
        content = dump(state)
        with self._state_path(client, number).open("wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
            file.flush()
            os.fsync(file.fileno())
        self._states.setdefault(client, []).append(number)

    def _keep_states(self, rounds: int) -> None:
        """Take in the states up to a round: the last of each client. Others are of rounds that are run again."""
        found: dict[int, list[int]] = {}
        for path in (self._directory / STATES).iterdir():
            client, _, number = path.name.partition("-")
            if client.isdigit() and number.isdigit():
                found.setdefault(int(client), []).append(int(number))
        self._states = {}
        for client, numbers in sorted(found.items()):
            valid = [number for number in sorted(numbers) if number <= rounds]
            if valid:
                self._states[client] = valid[-1:]
            for number in set(numbers) - set(valid[-1:]):
                self._state_path(client, number).unlink()

    def _digest_of_states(self) -> str:
        names = [f"{client}-{numbers[-1]}" for client, numbers in sorted(self._states.items())]
        return hashlib.sha256(" ".join(names).encode()).hexdigest()

    def _state_path(self, client: int, number: int) -> Path:
        return self._directory / STATES / f"{client}-{number}"


def _write(directory: Path, document: dict[str, Any], tensors: Tensors) -> None:
    text = json.dumps(document, sort_keys=True)
    ordered = dict(sorted(tensors.items()))
    # One key: safetensors does not keep the order of several.
    content = save(ordered, {METADATA: f"{_digest(text, ordered)} {text}"})
    write_atomically(directory / CHECKPOINT, content)


def _digest(document: str, tensors: Tensors) -> str:
    return hashlib.sha256(document.encode() + dump(tensors)).hexdigest()


def _parse(path: Path) -> tuple[dict[str, Any], Tensors]:
    """The document of a checkpoint, whole and with all its keys, and the model."""
    try:
        with safe_open(path, framework="np") as file:
            digest, _, text = (file.metadata() or {}).get(METADATA, "").partition(" ")
        tensors = load(path.read_bytes())
        if digest != _digest(text, tensors):
            raise ValueError("wrong digest")
        document = json.loads(text)
        RunRecord.from_json(document["record"])
        if not {"data", "states"} <= document.keys():
            raise ValueError("incomplete")
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, InvalidContent, InvalidInput) as fault:
        reason = str(fault) or type(fault).__name__
        raise InvalidContent(f"the checkpoint {path} is damaged ({reason}): give another directory") from None
    return document, tensors
