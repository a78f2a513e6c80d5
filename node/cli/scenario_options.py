"""Options of the commands that run a scenario, made from its fields: ``--clients`` is ``scenario.clients``, and so on.

A command names those that it takes; ``--set`` changes any other key, and ``--scenario`` reads a file.
"""

import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce, wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.nested_tables import Tables, merged, nested
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.strict_toml import parse_toml
from fedgrove.node.cli.output import CommandError
from fedgrove.node.cli.values import pairs, words
from fedgrove.node.learning.settings import DATASETS, STRATEGIES
from fedgrove.node.scenario.methods import METHODS
from fedgrove.node.scenario.names import NAMED, TRAINING, default_of, name_of, tables_of
from fedgrove.node.scenario.reading import difference, read_scenario
from fedgrove.node.scenario.scenario import Scenario

_OPTIONS = {"bases": "base"}
"""Names of options where they are not those in Python."""
_WORDS: dict[str, dict[str, Any]] = {
    "dataset": words(*DATASETS, other="FILE"),
    "strategy": words(*STRATEGIES, metavar="STRATEGY"),
    "method": words(TRAINING, *METHODS, metavar="METHOD[, NAME = VALUE …]"),
    "chain": words("embedded", "anvil", other="URL"),
    "store": words("disk", "kubo", other="URL"),
    "executor": words("auto", "inline", "processes", other="dask=tcp://HOST:PORT"),
    "task": {"metavar": "PATH"},
    "data": {"metavar": "PATH"},
    "data_dir": {"metavar": "PATH"},
    "bases": {"metavar": "NAME=PATH"},
    "table_format": {"metavar": "KEY=VALUE"},
}
"""What help and shells show of values, where the key's type does not say it."""
_NOT_FOR_TASKS = ("dataset", "data_dir", "alpha", "k")
ScenarioFile = Annotated[
    Path | None,
    typer.Option("--scenario", "--plan", help="A scenario's or a federation's file (TOML); options change its keys."),
]
_Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Another value for any key; may be repeated."),
]


@dataclass(frozen=True)
class Asked:
    """What a command line asks for.

    Attributes
    ----------
    names : frozenset of str
        The options of keys that were given, as Python has their names.
    preset : dict or None
        Other defaults than those of the keys, where there is no file.
    """

    file: Path | None = None
    tables: Tables = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    preset: Tables | None = None

    def scenario(self) -> Scenario:
        """The scenario that is asked for; raises InvalidConfig."""
        return read_scenario(self.file, self.tables, None if self.file else self.preset)

    def check_same(self, made: Scenario, whose: str, remedy: str, free: Sequence[str] = ()) -> None:
        """Refuse to go on with a scenario where a key that is not ``free`` is asked to have another value."""
        key = difference(made, self.tables, free)
        if key:
            name, (table, _, inner) = name_of(key), key.partition(".")
            named = option(name) if name in self.names else key
            value = made.to_tables().get(table, {}).get(inner)
            raise CommandError(f"{whose} {f'without {named}' if value is None else f'with {named} {value}'}: {remedy}")

    @contextmanager
    def as_options(self) -> Iterator[None]:
        """Have a mistake name the option, where one gave the value, in place of the key."""
        try:
            yield
        except InvalidConfig as mistake:
            raise CommandError(self.in_options(str(mistake))) from None

    def in_options(self, sentence: str) -> str:
        """A sentence that begins with a key, with the option in its place if it was given."""
        found = re.match(r"([a-z_]+)(?:(?:\.|: )([a-z_]+))?", sentence)
        if found is None:
            return sentence
        name = name_of(".".join(filter(None, found.groups()))) or found[0]
        spoken = name in self.names or name in ("out", "resume")
        return f"{option(name)}{sentence[found.end() :]}" if spoken else sentence


def option(name: str) -> str:
    """The option of a short name."""
    return f"--{_OPTIONS.get(name, name).replace('_', '-')}"


def takes(
    *names: str, preset: Tables | None = None, **shown: dict[str, Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have a command take ``--scenario``, ``--set`` and options of these names, and give it ``asked``, an ``Asked``.

    ``preset`` are other defaults than those of the keys; ``shown`` replaces what help and shells show of some values.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(scenario: Path | None, settings: list[str] | None, **given: Any) -> Any:
            found = {name: _value(name, given.pop(name)) for name in names}
            named = {name: value for name, value in found.items() if value is not None}
            asked = Asked(scenario, {}, frozenset(named))
            for name in _NOT_FOR_TASKS if "task" in named else ():
                if name in named:
                    raise CommandError(f"{option(name)} is not for tasks: leave it out with --task")
            with asked.as_options():
                tables = reduce(merged, map(setting, settings or ()), tables_of(named))
                return command(asked=Asked(scenario, tables, asked.names, preset), **given)

        own = inspect.signature(command, eval_str=True).parameters
        kept = [each for name, each in own.items() if name != "asked"]
        file = inspect.Parameter("scenario", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ScenarioFile)
        change = inspect.Parameter("settings", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Settings)
        made = [_parameter(name, shown, preset or {}) for name in names]
        every = [file, change, *made, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in kept)]
        run.__signature__ = inspect.Signature(every)  # pyright: ignore[reportAttributeAccessIssue] (typer reads it)
        run.__annotations__ = {each.name: each.annotation for each in every}
        del run.__wrapped__
        return run

    return decorate


def _parameter(name: str, replaced: Mapping[str, dict[str, Any]], preset: Tables) -> inspect.Parameter:
    """The option of a key: its type and its meaning are those of the scenario's field."""
    kind, shown = _kind(name), dict(_WORDS.get(name, {}))
    choices = typing.get_args(NAMED[name].type) if typing.get_origin(NAMED[name].type) is typing.Literal else ()
    if choices:
        shown = words(*choices)
    shown |= replaced.get(name, {})
    declared = (f"{option(name)}",) if kind is not bool else (f"{option(name)}/--no-{option(name)[2:]}",)
    annotation = Annotated[kind | None, typer.Option(*declared, help=_help(name, preset), **shown)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _kind(name: str) -> Any:
    kind = NAMED[name].type
    if _is_mapping(kind):
        return list[str]
    if typing.get_origin(kind) is typing.Literal:
        return str
    return bool if kind == bool | None else kind


def _is_mapping(kind: Any) -> bool:
    return (
        typing.get_origin(kind) is not None
        and isinstance(typing.get_origin(kind), type)
        and issubclass(typing.get_origin(kind), Mapping)
    )


def _help(name: str, preset: Tables) -> str:
    """What the key means, with its default where it is not said."""
    named = NAMED[name]
    if named.meaning:
        return named.meaning
    table, _, key = named.key.partition(".")
    default = preset.get(table, {}).get(key, default_of(named.key))
    plain = isinstance(default, int | float | str) and not isinstance(default, bool) and default not in ("", "auto")
    return f"{named.help} [default: {default}]" if plain else named.help


def _value(name: str, given: Any) -> Any:
    """The value of an option as the tables have it."""
    return (pairs(option(name), given, _WORDS[name]["metavar"]) or None) if _is_mapping(NAMED[name].type) else given


def setting(given: str) -> Tables:
    """The tables of a change like ``training.epochs=2``; a word that is no TOML value is a string."""
    key, equals, value = given.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts) or len(parts) not in (2, 3):
        raise CommandError(f"--set must be TABLE.KEY=VALUE, such as training.epochs=2, not {given!r}")
    try:
        return nested(key.strip(), parse_toml(f"value = {value}".encode())["value"])
    except InvalidContent as fault:
        if re.fullmatch(r"\s*[A-Za-z][\w./:-]*\s*", value):
            return nested(key.strip(), value.strip())
        raise CommandError(f"--set {key.strip()} must have a TOML value, not {value!r}: {fault}") from None
