"""Options that several commands take."""

from typing import Annotated

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Print to stdout as JSON.")]
EtherPrice = Annotated[
    float,
    typer.Option(min=0, max=1e12, help="Price of one ether in a currency, to show the costs in it as well."),
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
