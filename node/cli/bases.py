"""``--base NAME=PATH``: where a task's frozen bases lie on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrove.node.cli.values import pairs

BaseOptions = Annotated[
    list[str] | None,
    typer.Option("--base", metavar="NAME=PATH", help="A pretrained model that the task names; may be repeated."),
]


def given_bases(options: list[str] | None) -> dict[str, Path]:
    """The paths by name."""
    return {name: Path(path) for name, path in pairs("--base", options, "NAME=PATH").items()}
