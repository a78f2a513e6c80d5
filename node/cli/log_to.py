"""``--log-to``: figures of each round for TensorBoard, MLflow or a CSV file."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer

from fedgrove.common.errors import InvalidInput
from fedgrove.node.cli.extras import require
from fedgrove.node.cli.output import CommandError, fault_of_disk
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
    """The targets that the option names; CommandError for one that cannot be, or whose package is missing."""
    try:
        targets = figure_targets.log_targets(given or ())
    except InvalidInput as mistake:
        raise CommandError(f"--log-to {mistake}") from None
    for target in targets:
        if target.kind in EXTRAS:
            require(target.kind, f"--log-to {target.kind}")
    return targets


@contextmanager
def opened_logs(targets: Sequence[LogTarget], say: Callable[[str], None]) -> Iterator[FigureLogs]:
    """Open the logs, and close them; ``say`` is told of one that fails. Raises CommandError."""
    with ExitStack() as stack:
        try:
            logs = stack.enter_context(figure_targets.opened_logs(targets, say, _sentence))
        except InvalidInput as fault:
            raise CommandError(f"--log-to {fault}") from None
        yield logs


def _sentence(fault: Exception) -> str:
    if isinstance(fault, OSError):
        return fault_of_disk(fault) or f"{fault.strerror or fault} ({fault.filename})"
    return str(fault)
