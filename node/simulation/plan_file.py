"""A plan as a TOML file, in the tables of a federation's own file; that file is a plan as well.

A plan has the keys that decide what a simulation computes. A federation's file is checked as one, and of its terms
those keys are taken; ``[simulation]``, ``[data]``, ``[partition]`` and ``[attack]`` may be added to it.
"""

import dataclasses
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from functools import reduce
from pathlib import Path
from typing import Any, get_type_hints

from fedgrove.node.base.inline import inline_table
from fedgrove.node.base.nested_tables import Tables, merged
from fedgrove.node.base.strict_tables import InvalidConfig, build, build_tagged, join
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.learning.server_steps import SERVER_STEPS
from fedgrove.node.learning.settings import (
    EvaluationSettings,
    ModelSpec,
    PartitionSettings,
    TrainingSettings,
    default_settings,
)
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.terms import config_of, read_tables
from fedgrove.node.methods.training.suggestion import SuggestedTerms, evaluation_left_out, suggested_by
from fedgrove.node.privacy.settings import MECHANISMS
from fedgrove.node.scenario.clusters import METHODS
from fedgrove.node.scenario.poisoning import AttackSettings
from fedgrove.node.simulation.plan import OF_NETWORKS, PLACES, Plan
from fedgrove.node.simulation.task_settings import SimulatedTask

# One of these, or a model's shape, stands in a federation's own file only.
_FEDERATIONS = frozenset(("network", "ledger", "membership", "start", "shared", "kmeans"))
_ADDED = ("simulation", "data", "partition", "attack")


def _places() -> list[tuple[str, str, str]]:
    """Attribute, table and key of each plain value."""
    return [(name, table, key) for name, place in PLACES.items() for table, key in [place.split(".")]]


def _plain_tables() -> dict[str, type]:
    """A dataclass for each table of plain values, with the types and defaults of the plan's attributes."""
    hints, known = get_type_hints(Plan), {item.name: item for item in fields(Plan)}
    keys: dict[str, list[tuple[str, Any, Any]]] = {}
    for name, table, key in _places():
        default = field(default=known[name].default, default_factory=known[name].default_factory)
        keys.setdefault(table, []).append((key, hints[name], default))
    return {table: make_dataclass(table, items, frozen=True) for table, items in keys.items()}


_PLAIN = _plain_tables()
_TABLES = (*_PLAIN, "training", "partition", "privacy", "server", "attack", "task", "evaluation", *METHODS)


@dataclass(frozen=True)
class GivenPlan:
    """A plan, and the model with its shape where a federation's file names one.

    ``left_out`` says which of its task's suggestions the plan does not follow, in one sentence; empty where it does.
    """

    plan: Plan
    model: ModelSpec | None = None
    left_out: str = ""

    def check_data(self, dataset: Dataset) -> None:
        """Raise InvalidConfig if the model is for samples of another shape or number of classes."""
        for key in ("input_shape", "classes") if self.model else ():
            wanted, found = getattr(self.model, key), getattr(dataset, key)
            if wanted != found:
                raise InvalidConfig(
                    f"model.{key} is {wanted}, and of the data set {dataset.name} {found}: give --dataset"
                )


def read_plan(path: Path | None, changes: Sequence[Tables] = (), method: Tables | None = None) -> GivenPlan:
    """Read a plan from a file, and change it.

    Parameters
    ----------
    path : Path or None
        A plan's or a federation's TOML file, which must be right by itself; None starts from the defaults.
    changes : sequence of dict
        Tables with the keys that get other values, one after the other.
    method : dict, optional
        A table in place of ``[procfl]``, ``[ifca]`` or ``[global]``; empty for none.

    Raises
    ------
    InvalidConfig
        One sentence that names the file, the table and the key.
    """
    tables, model = {}, None
    if path is not None:
        given = read_tables(path, "a plan, or a federation's TOML file")
        try:
            tables, model = _of_federation(given) if _is_federation(given) else (given, None)
            plan_of(tables)
        except InvalidConfig as fault:
            raise InvalidConfig(f"{path}: {fault}") from None
    if method is not None:
        tables = {name: table for name, table in tables.items() if name not in METHODS} | method
    tables = reduce(merged, changes, tables)
    return GivenPlan(plan_of(tables), model, _left_out(tables))


def plan_of(tables: Tables) -> Plan:
    """The plan in the tables of its file.

    Raises
    ------
    InvalidConfig
        An unknown table or key, or a value of the wrong type or out of range.
    """
    for name in tables:
        if name not in _TABLES:
            raise InvalidConfig(f"unknown table {join('', name)}; known in a plan: {', '.join(sorted(_TABLES))}")
    tables = _with_suggestions(tables)
    plain = {name: build(kind, tables.get(name, {}), name) for name, kind in _PLAIN.items()}
    values: Tables = {name: getattr(plain[table], key) for name, table, key in _places()}
    values["device"] = _device(values["device"])
    training = tables.get("training", {})
    if isinstance(training, dict) and "task" not in tables:
        training = dataclasses.asdict(default_settings(values["dataset"])) | training
    return Plan(
        **values,
        training=build(TrainingSettings, training, "training"),
        partition=build(PartitionSettings, tables.get("partition", {}), "partition"),
        privacy=build_tagged(MECHANISMS, "mechanism", tables.get("privacy", {"mechanism": "none"}), "privacy"),
        clustering=_method_of({name: tables[name] for name in METHODS if name in tables}),
        attack=build(AttackSettings, tables["attack"], "attack") if "attack" in tables else None,
        server=build_tagged(SERVER_STEPS, "step", tables.get("server", {"step": "none"}), "server"),
        task=build(SimulatedTask, tables["task"], "task") if "task" in tables else None,
        evaluation=build(EvaluationSettings, tables["evaluation"], "evaluation") if "evaluation" in tables else None,
    )


def method_table(given: str) -> Tables:
    """The table of a method, from its name and what the table would hold, on one line; none for ``training``."""
    try:
        name, table = inline_table(given)
    except tomllib.TOMLDecodeError as fault:
        raise InvalidConfig(
            f"method must be like 'procfl, alpha = 0.5, psi = 'ecdh'', not {given!r}: {fault}"
        ) from None
    if name not in ("training", *METHODS) or (name == "training" and table):
        raise InvalidConfig(f"method must be training, or one of {', '.join(METHODS)} and settings, not {given!r}")
    return {} if name == "training" else {name: table}


def plan_bytes(plan: Plan) -> bytes:
    """The TOML file of a plan, with all keys that have an effect; read again it gives an equal plan."""
    tables: Tables = {}
    without = ("source",) if plan.task is None else OF_NETWORKS
    for name, table, key in _places():
        if name not in without and (name != "patience" or plan.patience):
            tables.setdefault(table, {})[key] = getattr(plan, name)
    for name in ("training", "partition", "attack", "task", "evaluation"):
        if getattr(plan, name) is not None and name not in without:
            tables[name] = dataclasses.asdict(getattr(plan, name))
    if plan.privacy is not None:
        tables["privacy"] = {"mechanism": plan.privacy.mechanism, **dataclasses.asdict(plan.privacy)}
    if plan.server is not None:
        tables["server"] = {"step": plan.server.step, **dataclasses.asdict(plan.server)}
    if plan.clustering is not None:
        tables[plan.clustering.method] = dataclasses.asdict(plan.clustering)
    import tomli_w

    return tomli_w.dumps(tables).encode()


def _with_suggestions(tables: Tables) -> Tables:
    """The tables, with what the author of their task suggests in place of keys that are left out."""
    suggestion = _suggestion(tables)
    if suggestion is None:
        return tables
    suggested = suggestion.to_tables()
    given = {name: tables.get(name, {}) for name in suggested}
    if "evaluation" not in tables and suggestion.evaluation is not None and not _mechanism(tables):
        tables = tables | {"evaluation": _listed(dataclasses.asdict(suggestion.evaluation))}
    return tables | {name: suggested[name] | given[name] for name in given if isinstance(given[name], dict)}


def _left_out(tables: Tables) -> str:
    """Which suggestion of their task's the tables do not follow, in one sentence; empty where they do."""
    suggestion, mechanism = _suggestion(tables), _mechanism(tables)
    if suggestion is None or suggestion.evaluation is None or "evaluation" in tables or not mechanism:
        return ""
    return evaluation_left_out(mechanism, "a table [evaluation]")


def _suggestion(tables: Tables) -> SuggestedTerms | None:
    """What the author of the tables' task suggests; None without a task."""
    task = tables.get("task")
    folder = task.get("folder") if isinstance(task, dict) else None
    return suggested_by(Path(folder)) if isinstance(folder, str) and folder else None


def _mechanism(tables: Tables) -> str:
    """The privacy mechanism that tables name; empty for none."""
    privacy = tables.get("privacy", {})
    name = privacy.get("mechanism", "none") if isinstance(privacy, dict) else "none"
    return "" if name == "none" else str(name)


def _listed(table: Tables) -> Tables:
    """The table as TOML gives it."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in table.items()}


def _method_of(given: Tables) -> Any:
    if len(given) > 1:
        raise InvalidConfig(f"give one of the tables {', '.join(given)}: a plan has one method")
    return next((build(METHODS[name], table, name) for name, table in given.items()), None)


def _device(name: str) -> str:
    if name == "cpu":
        return name
    from fedgrove.node.learning.devices import NoDevice, choose  # torch takes a second

    try:
        return choose(name)
    except NoDevice as fault:
        raise InvalidConfig(f"simulation.device: {fault}") from None


def _is_federation(tables: Tables) -> bool:
    model = tables.get("model")
    return not _FEDERATIONS.isdisjoint(tables) or (isinstance(model, dict) and "input_shape" in model)


def _of_federation(tables: Tables) -> tuple[Tables, ModelSpec | None]:
    """The plan's tables in those of a federation's file, and its model, if it has one."""
    added = {name: tables[name] for name in _ADDED if name in tables}
    config, _ = config_of({name: table for name, table in tables.items() if name not in added})
    terms = json.loads(config.to_bytes())
    if config.model is None and config.task is None:
        raise InvalidConfig(f"{config.method.name} trains no model, and only training is simulated here")
    if isinstance(config.method, ProCflTerms):  # a simulation does without the rounds of comparisons, which come first
        terms["federation"]["rounds"] -= config.method.first_rounds
    known = {name: {item.name for item in fields(kind)} for name, kind in (_PLAIN | {"procfl": ProCflSettings}).items()}
    plan = {
        name: {key: value for key, value in table.items() if key in known.get(name, table)}
        for name, table in terms.items()
        if name in _TABLES
    }
    return plan | added, config.model
