"""Options that several commands take."""

from typing import Annotated

import typer
from fedgrove.common.errors import InvalidInput
from fedgrove.node.cli.values import words
from fedgrove.node.learning.settings import DATASETS
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
    str,
    typer.Option(help="How a task's code is contained; off: not at all.", **words(AUTO, *Mode)),
]
Method = Annotated[
    str,
    typer.Option(
        **words("training", "procfl", metavar="METHOD[, NAME = VALUE …]"),
        help="training: one model; procfl: similar clients train together, with the keys of [procfl].",
    ),
]
Dataset = Annotated[
    str,
    typer.Option(
        help="Data set for the shipped networks; FILE is a .npz or .safetensors file, or module:attribute.",
        **words(*DATASETS, other="FILE"),
    ),
]
HeldOut = Annotated[
    float,
    typer.Option(help="Share of its samples on which each client evaluates the model before it trains; 0: none."),
]
Patience = Annotated[
    int, typer.Option(min=0, help="End when the loss that they find has not fallen for this many rounds; 0: never.")
]
Masking = Annotated[str, typer.Option(help="Masks of the updates.", **words("bbtsa", "pairwise"))]
Portable = Annotated[
    bool, typer.Option("--portable", help="Train to the same bytes as on any other x86-64 processor with AVX2.")
]
