"""``--base NAME=PATH``: where a task's frozen bases lie on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrove.node.cli.output import CommandError

BaseOptions = Annotated[
    list[str] | None,
    typer.Option("--base", metavar="NAME=PATH", help="A pretrained model that the task names; may be repeated."),
]


def given_bases(options: list[str] | None) -> dict[str, Path]:
    """The paths by name."""
    found: dict[str, Path] = {}
    for option in options or []:
        name, equals, path = option.partition("=")
        if not (equals and name and path) or name in found:
            raise CommandError(f"--base must be NAME=PATH, each name once, not {option!r}")
        found[name] = Path(path)
    return found
