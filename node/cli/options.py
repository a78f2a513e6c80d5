"""Options that several commands take."""

from typing import Annotated

import typer

Epsilon = Annotated[
    float, typer.Option(help="Budget of client-level differential privacy, at δ = 0.001; 0: none, masks only.")
]
Clustering = Annotated[
    str,
    typer.Option(
        metavar="METHOD[, NAME = VALUE …]",
        help="procfl: clients whose data are alike find each other and train together; settings as in [clusters].",
    ),
]
