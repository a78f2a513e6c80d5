"""Options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrove.common.errors import InvalidInput
from fedgrove.node.cli.values import words
from fedgrove.node.status.price import Price
from fedgrove.node.tasks.sandbox.modes import AUTO
from fedgrove.node.tasks.sandbox.settings import Mode


def _price(text: str) -> Price:
    """A price, or a complaint that says what one looks like."""
    try:
        return Price.parse(text)
    except InvalidInput as fault:
        raise typer.BadParameter(str(fault)) from None


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
