"""Options that several commands take."""

from typing import Annotated

import typer
from fedgrove.node.status.price import Price


def _price(text: str) -> Price:
    """A price, or a complaint that says what one looks like."""
    try:
        return Price.parse(text)
    except ValueError as fault:
        raise typer.BadParameter(str(fault)) from None


JsonFlag = Annotated[bool, typer.Option("--json", help="Print to stdout as JSON.")]
EtherPrice = Annotated[
    Price | None,
    typer.Option(
        parser=_price,
        metavar="AMOUNT CURRENCY",
        help="Price of one ether, as '2500 EUR', to show the costs in that currency as well.",
    ),
]
Epsilon = Annotated[
    float, typer.Option(help="Budget of client-level differential privacy, at δ = 0.001; 0: none, masks only.")
]
Sandbox = Annotated[
    str, typer.Option(help="How a task's code is contained: auto, strict, contained, or off (not at all).")
]
Method = Annotated[
    str,
    typer.Option(
        metavar="METHOD[, NAME = VALUE …]",
        help="training: one model; procfl: similar clients train together, with the keys of [procfl].",
    ),
]
