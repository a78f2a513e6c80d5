"""Everything that a federation on one machine, or a simulation of it, depends on."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np

from fedgrove.common.settings import bare
from fedgrove.node.base.strict_tables import InvalidConfig, build, build_tagged, join
from fedgrove.node.learning.server_steps import SERVER_STEPS, ServerSettings
from fedgrove.node.learning.settings import MODELS, EvaluationSettings, PartitionSettings, TrainingSettings
from fedgrove.node.privacy.settings import MECHANISMS, PrivacySettings
from fedgrove.node.protocol.bounds_settings import BoundsSettings, norm_of
from fedgrove.node.protocol.terms import FederationSettings, MaskingSettings, StrategySettings
from fedgrove.node.scenario.method import MethodChoice, TrainingChoice
from fedgrove.node.scenario.methods import METHODS
from fedgrove.node.scenario.poisoning import AttackSettings
from fedgrove.node.scenario.settings import Cast, NetworkChoice, RunSettings, TaskChoice

_LATER: dict[str, Any] = {
    **{"copies": 1, "groups": 5, "others": 0.2, "device": "cpu", "bases": (), "validation": 0.0, "patience": 0},
    **{"precision": "fp32", "portable": False, "together": 1, "labels": 0, "shown": "noised", "masked": "weights"},
}
"""Keys that came later than runs that are kept: at these values they are left out, and digests stay what they were."""
_DECIDING = {
    "scenario": ("clients", "dataset", "data", "train_samples", "test_samples", "validation", "shared_per_class"),
    "federation": ("rounds", "sampling_rate", "seed", "patience"),
    "masking": ("bound", "masked"),
    "model": ("name",),
    "run": ("evaluate_every", "probe_every", "device", "together"),
}
"""Keys of these tables that decide what a simulation computes; of the others all keys do."""
OF_NETWORKS = {
    "scenario": ("dataset", "train_samples", "test_samples", "shared_per_class", "validation"),
    "run": ("probe_every", "device", "together"),
    "model": ("name",),
    "partition": tuple(item.name for item in fields(PartitionSettings)),
}
"""What says how a shipped network is trained, and nothing of a task."""
_NAMES = {"cast": "scenario"}
"""Tables that have another name than the scenario's attribute."""
ATTRIBUTES = {table: name for name, table in _NAMES.items()}
"""The attributes of these tables."""
_TAGGED: dict[str, tuple[str, Mapping[str, type]]] = {
    "privacy": ("mechanism", MECHANISMS),
    "server": ("step", SERVER_STEPS),
}
"""Tables of several kinds: the key that tells them apart, and the kinds by its value."""


@dataclass(frozen=True)
class Scenario:
    """A federation: its terms, its clients with their data, and how it is run.

    Attributes
    ----------
    cast : Cast
        The table ``[scenario]``.
    run : RunSettings
    federation : FederationSettings
        In ``rounds`` only those count that train: clusters compare their data in rounds before them.
    strategy, training, masking : StrategySettings, TrainingSettings, MaskingSettings
    partition : PartitionSettings
        How the training samples are split among the clients.
    model : NetworkChoice
    task : TaskChoice or None
        What is trained in place of a shipped network.
    privacy : PrivacySettings or None
        Mechanism of differential privacy; None has masks only.
    evaluation : EvaluationSettings or None
        How the clients evaluate each round's model before they train it; None: they do not.
    server : ServerSettings or None
        The server's step on the mean of a round's uploads; None: the mean is the next model.
    bounds : BoundsSettings or None
        How large an update may be, as clients prove; None: they prove nothing.
    method : MethodChoice
        What the rounds compute, as the table of a method says; without one they train one model.
    attack : AttackSettings or None
        Who poisons the training; in a simulation with a method for clusters.
    """

    cast: Cast = field(default_factory=Cast)
    run: RunSettings = field(default_factory=RunSettings)
    federation: FederationSettings = field(default_factory=FederationSettings)
    strategy: StrategySettings = field(default_factory=StrategySettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    masking: MaskingSettings = field(default_factory=MaskingSettings)
    partition: PartitionSettings = field(default_factory=PartitionSettings)
    model: NetworkChoice = field(default_factory=NetworkChoice)
    task: TaskChoice | None = None
    privacy: PrivacySettings | None = None
    evaluation: EvaluationSettings | None = None
    server: ServerSettings | None = None
    bounds: BoundsSettings | None = None
    method: MethodChoice = field(default_factory=TrainingChoice)
    attack: AttackSettings | None = None

    def __post_init__(self) -> None:
        if self.model.name not in ("", *MODELS):
            raise InvalidConfig(f"model.name must be one of {', '.join(MODELS)}, not {self.model.name!r}")

    @property
    def clients(self) -> int:
        """Number of clients."""
        return self.cast.clients

    @property
    def rounds(self) -> int:
        """Rounds that train."""
        return self.federation.rounds

    @property
    def seed(self) -> int:
        """Root of all training randomness."""
        return self.federation.seed

    @property
    def norm(self) -> float:
        """The largest norm of an update; infinite without bounds."""
        return norm_of(self.bounds)

    @property
    def subject(self) -> str:
        """What is trained on, for people: the task's folder, or the data set."""
        return self.cast.dataset if self.task is None else self.task.folder

    @property
    def drawn(self) -> int:
        """Clients drawn in each round of a simulation."""
        # 0.29 · 100 is 28.999… in floating point, and means 29.
        return max(1, math.floor(self.federation.sampling_rate * self.cast.clients + 1e-9))

    def draw(self, number: int) -> tuple[int, ...]:
        """The clients of a round, ascending, where a fixed number is drawn; a function of seed, clients and round."""
        clients = self.cast.clients
        if self.drawn == clients:
            return tuple(range(1, clients + 1))
        digest = hashlib.sha256(f"fedgrove draw {self.federation.seed} {clients} {number}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest, "big"))
        return tuple(sorted(1 + int(client) for client in rng.choice(clients, self.drawn, replace=False)))

    def evaluates(self, number: int) -> bool:
        """Whether the global model is tested after this round."""
        return number % self.run.evaluate_every == 0 or number == self.federation.rounds

    def probes(self, number: int) -> bool:
        """Whether local models are tested out of distribution in this round."""
        return self.run.probe_every > 0 and number % self.run.probe_every == 0

    def with_seed(self, seed: int) -> "Scenario":
        """The same scenario from another root of randomness."""
        return self.changed(federation={"seed": seed})

    def changed(self, **parts: Any) -> "Scenario":
        """The same scenario with other values.

        Parameters
        ----------
        **parts
            By attribute, a mapping of the keys that change, as ``cast={"clients": 4}``, or all of it.
        """
        values = {
            name: replace(getattr(self, name), **part) if isinstance(part, Mapping) else part
            for name, part in parts.items()
        }
        return replace(self, **values)

    def _parts(self) -> Iterator[tuple[str, dict[str, Any], Any]]:
        """Each table that is there: its name, the key that says its kind, and its dataclass."""
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None and not isinstance(value, TrainingChoice):  # which has no table
                tag, _ = _TAGGED.get(item.name, ("", {}))
                name = value.name if item.name == "method" else _NAMES.get(item.name, item.name)
                yield name, {tag: getattr(value, tag)} if tag else {}, value

    def to_tables(self) -> dict[str, Any]:
        """The tables of its file, with all keys; read again they give an equal scenario."""
        return {name: kind | _plain_value(asdict(value)) for name, kind, value in self._parts()}

    def to_toml(self) -> bytes:
        """Its file, with all keys; read again it gives an equal scenario."""
        import tomli_w

        return tomli_w.dumps(self.to_tables()).encode()

    @classmethod
    def from_tables(cls, tables: Any) -> "Scenario":
        """The scenario in its tables; keys that are left out have the defaults of their dataclasses.

        Raises
        ------
        InvalidConfig
            An unknown table or key, or a value of the wrong type or out of range.
        """
        if not isinstance(tables, dict):
            raise InvalidConfig(f"the scenario must be a table, not {tables!r}")
        for name in tables:
            if name not in TABLES:
                raise InvalidConfig(f"unknown table {join('', name)}; known in a scenario: {', '.join(sorted(TABLES))}")
        methods = [name for name in METHODS if name in tables]
        if len(methods) > 1:
            raise InvalidConfig(f"give one of the tables {', '.join(methods)}: a scenario has one method")
        built: dict[str, Any] = {}
        if methods:
            built["method"] = build(METHODS[methods[0]], tables[methods[0]], methods[0])
        for item in fields(cls):
            name = _NAMES.get(item.name, item.name)
            if name not in tables or item.name == "method":
                continue
            if item.name in _TAGGED:
                tag, kinds = _TAGGED[item.name]
                built[item.name] = build_tagged(kinds, tag, tables[name], name)
            else:
                built[item.name] = build(KINDS[item.name], tables[name], name)
        return cls(**built)

    def to_json(self) -> dict[str, Any]:
        """What decides a simulation, as plain values; equal ones whether a number was written 1 or 1.0."""
        decisive: dict[str, Any] = {}
        for name, kind, value in self._parts():
            table = kind | _decisive(value)
            keys = _DECIDING.get(name, tuple(table))
            without = OF_NETWORKS.get(name, ()) if self.task is not None else ("data",)
            decisive[name] = {key: each for key, each in table.items() if key in keys and key not in without}
        return {name: table for name, table in decisive.items() if table or name == "task"}

    def digest(self) -> str:
        """SHA-256, in hex, of the canonical JSON form (sorted keys, no spaces) of what decides a simulation."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def without_machine(self) -> "Scenario":
        """The same, without keys of ``[run]`` that change no result: chain, store, workers and the like."""
        return self.changed(run=RunSettings(**{key: getattr(self.run, key) for key in _DECIDING["run"]}))

    def absolute(self) -> "Scenario":
        """The same, with absolute paths, so that it can be kept and run from elsewhere."""
        cast = {
            "data": _absolute(self.cast.data),
            "dataset": _absolute(self.cast.dataset) if Path(self.cast.dataset).is_file() else self.cast.dataset,
            "bases": {name: _absolute(path) for name, path in self.cast.bases.items()},
        }
        task = self.task and replace(self.task, folder=_absolute(self.task.folder))
        return self.changed(cast=cast, task=task, run={"data_dir": _absolute(self.run.data_dir)})


_HINTS = {name: set(get_args(hint) or (hint,)) - {type(None)} for name, hint in get_type_hints(Scenario).items()}
KINDS: dict[str, type] = {name: kinds.pop() for name, kinds in _HINTS.items() if len(kinds) == 1} | METHODS
"""Dataclasses of the tables that have one kind, by the scenario's attribute, or the method's name."""
TABLES = (*(_NAMES.get(item.name, item.name) for item in fields(Scenario) if item.name != "method"), *METHODS)
"""Names of all tables of a scenario's file."""


def _absolute(path: str) -> str:
    return str(Path(path).absolute()) if path else ""


def _decisive(value: Any) -> dict[str, Any]:
    """A dataclass as plain values, without keys that came later and have no effect."""
    plain = {}
    for item in fields(value):
        entry = getattr(value, item.name)
        if item.name in _LATER and entry == _LATER[item.name]:
            continue
        plain[item.name] = float(entry) if bare(item.type) is float else _decisive_value(entry)
        if item.type == dict[str, float]:
            plain[item.name] = {name: float(entry[name]) for name in sorted(entry)}
    return plain


def _decisive_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_decisive_value(each) for each in value]
    if isinstance(value, Mapping):
        return {name: value[name] for name in sorted(value)}
    return _decisive(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def _plain_value(value: Any) -> Any:
    """A value as TOML has it: lists for tuples, and nothing for None."""
    if isinstance(value, tuple | list):
        return [_plain_value(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _plain_value(each) for key, each in value.items() if each is not None}
    return value
