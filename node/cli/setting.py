"""``--set TABLE.KEY=VALUE``: another value for a key of a plan, or of the terms that a task suggests."""

import json
import re
from collections.abc import Sequence
from functools import reduce
from typing import Annotated

import typer
from fedgrove.node.base.nested_tables import Tables, merged, nested
from fedgrove.node.base.strict_toml import parse_toml
from fedgrove.node.cli.output import CommandError

TaskSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="TABLE.KEY=VALUE",
        help="Another value for a key of the task's terms.toml, as training.epochs=2; may be repeated.",
    ),
]


def setting(given: str) -> Tables:
    """The tables of a change like ``training.epochs=2``; a word that is no TOML value is a string."""
    key, equals, value = given.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts) or len(parts) not in (2, 3):
        raise CommandError(f"--set must be TABLE.KEY=VALUE, such as training.epochs=2, not {given!r}")
    try:
        return nested(key.strip(), parse_toml(f"value = {value}".encode())["value"])
    except ValueError as fault:
        if re.fullmatch(r"\s*[A-Za-z][\w./:-]*\s*", value):
            return nested(key.strip(), value.strip())
        raise CommandError(f"--set {key.strip()} must have a TOML value, not {value!r}: {fault}") from None


def settings_of(given: Sequence[str] | None) -> Tables:
    """The changes of a task's suggested terms that ``--set`` states."""
    changes = reduce(merged, map(setting, given or ()), {})
    try:
        json.dumps(changes)
    except TypeError:
        raise CommandError("--set takes numbers, texts, true, false and lists of them: no term is a date") from None
    from fedgrove.node.devnet.demo_request import suggestion  # brings torch

    return suggestion(changes)
