"""Short names of a scenario's keys, as options of commands and keywords in Python have them, and what the keys mean."""

import inspect
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from fedgrove.node.base.nested_tables import Tables, merged, nested
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.scenario.method import TrainingChoice
from fedgrove.node.scenario.methods import MEANINGS, METHODS
from fedgrove.node.scenario.scenario import ATTRIBUTES, KINDS

_DELTA = 1e-3
TRAINING = TrainingChoice.name


def _privacy(epsilon: float) -> Tables:
    """Client-level privacy with this budget, at δ = 0.001; nothing for 0."""
    return {"privacy": {"mechanism": "client", "epsilon": epsilon, "delta": _DELTA}} if epsilon else {}


def _evaluation(held_out: float) -> Tables:
    return {"evaluation": {"held_out": held_out}} if held_out else {}


def method_table(given: str) -> Tables:
    """The table of a method, from its name and what the table would hold, on one line; none for ``training``.

    Raises
    ------
    InvalidConfig
        Another name, or settings that are no table's.
    """
    name, _, settings = (given or TRAINING).partition(",")
    name = name.strip()
    try:
        table = tomllib.loads(f"table = {{{settings}}}")["table"]
    except tomllib.TOMLDecodeError as fault:
        raise InvalidConfig(f"method must be like 'procfl, alpha = 0.5', not {given!r}: {fault}") from None
    if name not in (TRAINING, *METHODS) or (name == TRAINING and table):
        raise InvalidConfig(f"method must be training, or one of {', '.join(METHODS)} and settings, not {given!r}")
    return {} if name == TRAINING else {name: table}


@dataclass(frozen=True)
class Named:
    """A short name of a key.

    Attributes
    ----------
    key : str
        The key, with its table; its type and its meaning are those of the dataclass.
    tables : callable, optional
        Tables that a value stands for, where they are more than the key.
    meaning : str
        In place of the key's, where a value stands for more.
    kind : type, optional
        Of a value, where it is not the key's.
    """

    key: str
    tables: Callable[[Any], Tables] | None = None
    meaning: str = ""
    kind: type | None = None

    def of(self, value: Any) -> Tables:
        """The tables that a value stands for."""
        return nested(self.key, value) if self.tables is None else self.tables(value)

    @property
    def help(self) -> str:
        """What it means, and its default."""
        return self.meaning or meaning_of(self.key)

    @property
    def type(self) -> Any:
        """Type of a value."""
        return self.kind or type_of(self.key)


NAMED = {
    "clients": Named("scenario.clients"),
    "rounds": Named("federation.rounds"),
    "dataset": Named("scenario.dataset"),
    "task": Named("task.folder", meaning="Folder with a task of your own, instead of a data set."),
    "data": Named("scenario.data"),
    "strategy": Named("strategy.name"),
    "alpha": Named("partition.alpha"),
    "seed": Named("federation.seed"),
    "masking": Named("masking.mode"),
    "drop": Named("scenario.drop"),
    "epsilon": Named(
        "privacy.epsilon",
        _privacy,
        "Budget of client-level differential privacy, at δ = 0.001: the noise follows; 0: none, masks only.",
        float,
    ),
    "held_out": Named(
        "evaluation.held_out",
        _evaluation,
        "Share of its samples on which each client evaluates the model before it trains; 0: none.",
    ),
    "patience": Named("federation.patience"),
    "portable": Named("training.portable"),
    "method": Named(
        "method",
        method_table,
        f"{MEANINGS}; behind the name the keys of its table.",
        str,
    ),
    "k": Named("kmeans.k", lambda k: {"kmeans": {"k": k}} if k else {}, "Run K-means with this many clusters."),
    "clusters_each": Named("kmeans.clusters_each"),
    "iterations": Named("kmeans.iterations"),
    "points": Named("scenario.train_samples", meaning="Cluster only this many points, drawn with the seed; 0: all."),
    "chain": Named("run.chain"),
    "store": Named("run.store"),
    "sandbox": Named("run.sandbox"),
    "data_dir": Named("run.data_dir"),
    "workers": Named("run.workers"),
    "executor": Named("run.executor"),
    "kubo_nodes": Named("run.kubo_nodes"),
    "block_seconds": Named("run.block_seconds"),
    "standby": Named("run.standby"),
    "explorer": Named("run.explorer"),
    "bases": Named("scenario.bases"),
    "table_format": Named("scenario.table_format"),
}
"""By the name in Python; options of commands have hyphens."""


def tables_of(named: Mapping[str, Any]) -> Tables:
    """The tables that values of short names stand for; None stands for nothing.

    Raises
    ------
    InvalidConfig
        There is no such name.
    """
    tables: Tables = {}
    for name, value in named.items():
        if name not in NAMED:
            raise InvalidConfig(f"unknown option {name!r}: known are {', '.join(NAMED)}, and all keys in settings")
        if value is not None:
            tables = merged(tables, NAMED[name].of(value))
    return tables


def name_of(key: str) -> str:
    """The short name of a key; empty where it has none."""
    return next((name for name, named in NAMED.items() if named.key == key), "")


@cache
def meanings(kind: type) -> dict[str, str]:
    """What the attributes of a dataclass mean, by its docstring."""
    section = (inspect.getdoc(kind) or "").partition("----------\n")[2]
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        current = re.match(r"([a-z_, ]+) : ", line)
        if current:
            names = current[1].split(", ")
        elif line.strip():
            for name in names:
                found[name] = f"{found.get(name, '')} {line.strip()}".strip().replace("``", "`")
    return found


def meaning_of(key: str) -> str:
    """What a key means, as the docstring of its table's dataclass says."""
    table, _, name = key.partition(".")
    return meanings(_kind(table))[name]


def type_of(key: str) -> Any:
    """The type of a key's values."""
    table, _, name = key.partition(".")
    return get_type_hints(_kind(table))[name]


def default_of(key: str) -> Any:
    """The default of a key."""
    table, _, name = key.partition(".")
    return next(item.default for item in fields(_kind(table)) if item.name == name)


def _kind(table: str) -> type:
    return KINDS[ATTRIBUTES.get(table, table)]
