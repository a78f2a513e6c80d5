"""Options that several commands take."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.cli.output import CommandError
from fedgrove.node.cli.values import pairs, words
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.status.price import Price
from fedgrove.node.tasks.sandbox.modes import AUTO
from fedgrove.node.tasks.sandbox.settings import Mode


def _price(text: str) -> Price:
    """A price, or a complaint that says what one looks like."""
    try:
        return Price.parse(text)
    except InvalidInput as fault:
        raise typer.BadParameter(str(fault)) from None


def group(text: str, kind: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """A group of commands with this help."""
    return typer.Typer(cls=kind, no_args_is_help=True, rich_markup_mode=None, help=text)


JsonFlag = Annotated[bool, typer.Option("--json", help="Print to stdout as JSON.")]
ConfigFile = Annotated[Path, typer.Option("--config", help="The federation's TOML file.")]
KeystoreFile = Annotated[Path, typer.Option("--keystore", help="Your keystore file.")]
PasswordFile = Annotated[
    Path | None, typer.Option(help="File with the password; otherwise FEDGROVE_PASSWORD or a prompt.")
]
ClusterNumber = Annotated[
    int | None, typer.Option(min=1, help="Where each cluster has a model: the cluster's number, from 1.")
]
ClusterMember = Annotated[int | None, typer.Option(min=1, help="Or the member whose cluster's model it is.")]
TaskSource = Annotated[Path, typer.Argument(metavar="DIR", help="The task's folder, or its one Python file.")]
EtherPrice = Annotated[
    Price | None,
    typer.Option(
        parser=_price,
        metavar="AMOUNT CURRENCY",
        help="Price of one ether, as '2500 EUR', to show the costs in that currency as well.",
    ),
]
Sandbox = Annotated[
    str,
    typer.Option(help="How a task's code is contained; off: not at all.", **words(AUTO, *Mode)),
]

BaseOptions = Annotated[
    list[str] | None,
    typer.Option("--base", metavar="NAME=PATH", help="A pretrained model that the task names; may be repeated."),
]


def given_bases(options: list[str] | None) -> dict[str, Path]:
    """The paths by name."""
    return {name: Path(path) for name, path in pairs("--base", options, "NAME=PATH").items()}


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
