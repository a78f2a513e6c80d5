"""``--log-to``: figures of each round for TensorBoard, MLflow or a CSV file."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Annotated

import typer

from fedgrove.node.cli.extras import require
from fedgrove.node.cli.output import fault_of_disk
from fedgrove.node.status import figure_targets
from fedgrove.node.status.figure_targets import EXTRAS, FigureLogs, LogTarget

LogTo = Annotated[
    list[str] | None,
    typer.Option(
        "--log-to",
        metavar="KIND:PLACE",
        help="Log figures of each round to tensorboard:DIR, mlflow:URI or csv:FILE; may be repeated.",
    ),
]


def log_targets(given: Sequence[str] | None) -> tuple[LogTarget, ...]:
    """The targets that the option names; InvalidInput for one that cannot be, or whose package is missing."""
    targets = figure_targets.log_targets(given or (), "--log-to")
    for target in targets:
        if target.kind in EXTRAS:
            require(target.kind, f"--log-to {target.kind}")
    return targets


def opened_logs(targets: Sequence[LogTarget], say: Callable[[str], None]) -> AbstractContextManager[FigureLogs]:
    """Open the logs, and close them; ``say`` is told of one that fails. Raises InvalidInput."""
    return figure_targets.opened_logs(targets, say, _sentence, "--log-to")


def _sentence(fault: Exception) -> str:
    if isinstance(fault, OSError):
        return fault_of_disk(fault) or f"{fault.strerror or fault} ({fault.filename})"
    return str(fault)
