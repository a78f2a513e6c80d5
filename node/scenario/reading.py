"""Scenarios from a file, from short names and from keys: what is left out follows from the data set or the task."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.nested_tables import Tables, from_dotted, merged, value_in
from fedgrove.node.base.strict_tables import InvalidConfig, build
from fedgrove.node.learning.settings import DATASETS, default_settings
from fedgrove.node.learning.task_settings import NETWORK
from fedgrove.node.methods.terms import config_of, read_tables
from fedgrove.node.methods.training.suggestion import SuggestedTerms, evaluation_left_out, suggested_by
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.protocol.terms import FederationSettings
from fedgrove.node.scenario.methods import METHODS, method_in
from fedgrove.node.scenario.names import tables_of
from fedgrove.node.scenario.scenario import TABLES, Scenario

# One of these, or a key of a federation's founder, stands in a federation's own file only.
_FEDERATIONS = frozenset(("network", "ledger", "membership", "start", "shared"))
_MOST_DROPOUTS = 0.9

MANY_CLIENTS: Tables = {
    "scenario": {"clients": 100},
    "federation": {"rounds": 100, "sampling_rate": 0.1},
    "strategy": {"name": "fedavg"},
}
"""What ``fedgrove simulate`` runs where neither a file nor an option says otherwise."""
MANY = Scenario.from_tables(MANY_CLIENTS)
"""The same, to change: the training settings are the defaults of theirs, not those that suit a data set."""
IN_PYTHON: Tables = {"run": {"executor": "inline", "workers": 1}}
"""What calls from Python begin with: processes would import the script again."""


def scenario(settings: Mapping[str, object] | None = None, **named: Any) -> Scenario:
    """The scenario with these values of short names and, behind them, of keys.

    >>> scenario({"training.epochs": 2}, clients=4, rounds=2).cast.clients
    4
    """
    return read_scenario(changes=merged(tables_of(named), from_dotted(settings or {})))


def read_scenario(path: Path | None = None, changes: Tables | None = None, preset: Tables | None = None) -> Scenario:
    """Read a scenario from a file, and change it.

    Parameters
    ----------
    path : Path, optional
        A scenario's or a federation's TOML file, which must be right by itself.
    changes : dict, optional
        Tables with the keys that get other values; a method's table replaces that of the file.
    preset : dict, optional
        Tables with other defaults than those of the keys.

    Raises
    ------
    InvalidConfig
        One sentence that names the file, the table and the key.
    """
    tables, changes = preset or {}, changes or {}
    if path is not None:
        found = read_tables(path, "a scenario's, or a federation's TOML file")
        try:
            tables = merged(tables, _of_federation(found) if _is_federation(found) else found)
            completed(tables)
        except InvalidConfig as fault:
            raise InvalidConfig(f"{path}: {fault}") from None
    if any(name in changes for name in METHODS):
        tables = {name: table for name, table in tables.items() if name not in METHODS or name in changes}
    return completed(merged(tables, changes))


def completed(tables: Tables) -> Scenario:
    """The scenario in tables, with what suits the data set, the task and the method for keys that are left out."""
    Scenario.from_tables({name: {} for name in tables if name not in TABLES})  # refuse before anything is looked up
    suited = (_with_suggestions, _with_method, _with_training, _with_federation, _with_privacy, _with_bounds)
    return Scenario.from_tables(reduce(lambda made, step: step(made), (*suited, _with_device), tables))


def left_out(scenario: Scenario, remedy: str = "a table [evaluation]") -> str:
    """Which suggestion of its task's a scenario does not follow, in one sentence; empty where it does."""
    suggestion = _suggestion({"task": {"folder": scenario.task.folder}}) if scenario.task else None
    if suggestion is None or suggestion.evaluation is None or scenario.evaluation or scenario.privacy is None:
        return ""
    return evaluation_left_out(scenario.privacy.mechanism, remedy)


def _with_suggestions(tables: Tables) -> Tables:
    """The tables, with what the author of their task suggests."""
    suggestion = _suggestion(tables)
    if suggestion is None:
        return tables
    suggested = suggestion.to_tables() | {"strategy": {"name": suggestion.default_strategy}}
    evaluation = suggestion.evaluation
    if evaluation is not None and ("evaluation" in tables or not _mechanism(tables)):
        suggested["evaluation"] = _listed(dataclasses.asdict(evaluation))
    return merged(suggested, tables)


def _with_method(tables: Tables) -> Tables:
    """The tables, with what suits their method."""
    return merged(method_in(tables).suited(tables), tables)


def _with_training(tables: Tables) -> Tables:
    """Training settings with which a few rounds on the data set show progress."""
    if "task" in tables or not method_in(tables).trains:
        return tables
    dataset = value_in(tables, "scenario", "dataset", "digits")
    suited = default_settings(dataset) if isinstance(dataset, str) else default_settings("")
    return merged({"training": dataclasses.asdict(suited)}, tables)


def _with_federation(tables: Tables) -> Tables:
    """The federation's name, and how often rounds may be repeated."""
    suited: Tables = {"federation": {}}
    dataset = value_in(tables, "scenario", "dataset", "digits")
    subject = "task" if "task" in tables else dataset if dataset in DATASETS else Path(str(dataset)).stem
    repeats = value_in(tables, "federation", "rounds", FederationSettings.rounds)
    suited["federation"] |= {"name": f"{subject} demo"[-80:]} | ({"repeats": repeats} if type(repeats) is int else {})
    return merged(suited, tables)


def _with_privacy(tables: Tables) -> Tables:
    """With client-level privacy updates are summed, and where no noise is given it follows from the budget."""
    table = tables.get("privacy")
    if _mechanism(tables) != ClientLevelSettings.mechanism or not isinstance(table, dict):
        return tables
    suited: Tables = {"masking": {"masked": "delta"}}
    if "noise_multipliers" not in table and "phases" not in table:
        drop = value_in(tables, "scenario", "drop", 0.0)
        keys = {key: value for key, value in table.items() if key != "mechanism"}
        keys = {"dropouts": min(drop, _MOST_DROPOUTS)} | keys if isinstance(drop, float) and drop > 0 else keys
        settings: ClientLevelSettings = build(ClientLevelSettings, keys, "privacy")
        rounds = value_in(tables, "federation", "rounds", FederationSettings.rounds)
        if isinstance(rounds, int) and rounds > 0:
            suited["privacy"] = {
                "noise_multipliers": [_noise(settings, rounds + ("evaluation" in tables), tables)],
                "dropouts": settings.dropouts,
            }
    return merged(suited, tables)


def _with_bounds(tables: Tables) -> Tables:
    """Bounds are on updates, which are summed in place of weights."""
    return merged({"masking": {"masked": "delta"}}, tables) if "bounds" in tables else tables


def _noise(settings: ClientLevelSettings, uploads: int, tables: Tables) -> float:
    """As much noise as the budget asks for, if a client takes part in all rounds.

    ``uploads`` of a client count: its rates of the last model cost as much as an update.
    """
    from fedgrove.node.privacy.accountant import noise_for  # heavy

    rate = value_in(tables, "federation", "sampling_rate", 1.0) if settings.participation == "secret" else 1.0
    rate = rate if isinstance(rate, float) and 0 < rate <= 1 else 1.0
    return noise_for(uploads, rate, settings.epsilon, settings.delta)


def _with_device(tables: Tables) -> Tables:
    """The device that ``auto`` and ``cuda`` find."""
    name = value_in(tables, "run", "device", "cpu")
    if name == "cpu" or not isinstance(name, str):
        return tables
    from fedgrove.node.learning.devices import choose

    try:
        return merged(tables, {"run": {"device": choose(name)}})
    except InvalidInput as fault:
        raise InvalidConfig(f"run.device: {fault}") from None


def _suggestion(tables: Tables) -> SuggestedTerms | None:
    """What the author of the tables' task suggests; None without a task."""
    folder = value_in(tables, "task", "folder", "")
    return suggested_by(Path(folder)) if isinstance(folder, str) and folder else None


def _mechanism(tables: Tables) -> str:
    """The privacy mechanism that tables name; empty for none."""
    name = str(value_in(tables, "privacy", "mechanism", "none"))
    return "" if name == "none" else name


def _listed(table: Tables) -> Tables:
    """The table as TOML gives it."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in table.items()}


def _is_federation(tables: Tables) -> bool:
    method = method_in(tables)
    stated = value_in(tables, "model", "input_shape", ()) or value_in(tables, method.name, method.stated, None)
    stated = stated or value_in(tables, "task", "name", "") == NETWORK
    return not _FEDERATIONS.isdisjoint(tables) or bool(stated and "scenario" not in tables)


def _of_federation(tables: Tables) -> Tables:
    """The scenario's tables in those of a federation's file, which is checked as one."""
    added = {name: tables[name] for name in ("scenario", "run", "partition", "attack") if name in tables}
    config, _ = config_of({name: table for name, table in tables.items() if name not in added})
    terms = {name: table for name, table in json.loads(config.to_bytes()).items() if name not in _FEDERATIONS}
    if config.task is not None and config.task.network is not None:  # a scenario's data set may be another
        terms["model"] = terms.pop("task")["options"]
    method = method_in(terms)
    if method.name in METHODS:
        terms[method.name] = method.of_terms(terms[method.name])
        terms["federation"]["rounds"] -= config.method.first_rounds
    return terms | added


def difference(before: Scenario, changes: Tables, free: Sequence[str] = ()) -> str:
    """The first key to which changes give another value than a scenario has; empty where there is none.

    Parameters
    ----------
    free : sequence of str
        Keys that may differ.

    Raises
    ------
    InvalidConfig
        The changes cannot be made.
    """
    tables = before.to_tables()
    after = Scenario.from_tables(merged(tables, changes)).absolute().to_tables()
    for name, keys in changes.items():
        for key in keys if isinstance(keys, dict) else ():
            if f"{name}.{key}" not in free and value_in(after, name, key, None) != value_in(tables, name, key, None):
                return f"{name}.{key}"
    return ""
