"""``--table-format KEY=VALUE``: how this member's own file writes a table."""

from dataclasses import fields
from typing import Annotated

import typer

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.cli.output import CommandError
from fedgrove.node.cli.values import pairs
from fedgrove.node.learning.tables.formats import TableFormat

_KEYS = tuple(item.name for item in fields(TableFormat))
TableFormatOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--table-format",
        metavar="KEY=VALUE",
        help=f"How your file writes a table, if not as others do: {', '.join(_KEYS)}; may be repeated.",
    ),
]


def given_format(options: list[str] | None) -> TableFormat | None:
    """The format that the options state; None without options."""
    found = pairs("--table-format", options, f"KEY=VALUE with one of {', '.join(_KEYS)}")
    try:
        return TableFormat.of(found) if found else None
    except InvalidConfig as fault:
        raise CommandError(f"--table-format: {fault}") from None
