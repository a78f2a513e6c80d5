"""``--log-to``: figures of each round for TensorBoard, MLflow or a CSV file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from fedgrove.ipfs.store import ContentReader, StoreError
from fedgrove.node.base.figure_logs import CsvLog, FigureLog, FigureLogFailed, MlflowLog, TensorBoardLog
from fedgrove.node.cli.extras import require
from fedgrove.node.cli.output import CommandError, fault_of_disk
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.status.round_figures import RoundFigures

LogTo = Annotated[
    list[str] | None,
    typer.Option(
        "--log-to",
        metavar="KIND:PLACE",
        help="Log figures of each round to tensorboard:DIR, mlflow:URI or csv:FILE; may be repeated.",
    ),
]
_KINDS: dict[str, Callable[[str], FigureLog]] = {
    "tensorboard": lambda place: TensorBoardLog(Path(place)),
    "mlflow": MlflowLog,
    "csv": lambda place: CsvLog(Path(place)),
}
_EXTRAS = ("tensorboard", "mlflow")


@dataclass(frozen=True)
class LogTarget:
    """Kind of a log, and its folder, file or address."""

    kind: str
    place: str


def log_targets(given: Sequence[str] | None) -> tuple[LogTarget, ...]:
    """The targets that the option names; CommandError for one that cannot be, or whose package is missing."""
    found = []
    for text in given or ():
        kind, _, place = text.partition(":")
        if kind not in _KINDS or not place:
            raise CommandError(f"--log-to must be tensorboard:DIR, mlflow:URI or csv:FILE, not {kind!r}")
        if kind in _EXTRAS:
            require(kind, f"--log-to {kind}")
        found.append(LogTarget(kind, place))
    return tuple(found)


class FigureLogs:
    """Any number of logs. One that fails is closed, with a sentence: training goes on without it."""

    def __init__(self, logs: Mapping[str, FigureLog], say: Callable[[str], None]) -> None:
        self._logs, self._say = dict(logs), say

    def __bool__(self) -> bool:
        return bool(self._logs)

    def write(self, run: str, number: int, figures: Mapping[str, float]) -> None:
        """Log a round's figures under the name of its run."""
        self._each(lambda log: log.write(run, number, figures))

    def close(self) -> None:
        """End all logs."""
        self._each(lambda log: log.close())

    def _each(self, act: Callable[[FigureLog], None]) -> None:
        for kind, log in list(self._logs.items()):
            try:
                act(log)
            except (FigureLogFailed, OSError) as fault:
                del self._logs[kind]
                self._say(f"nothing more is logged to {kind}: {_sentence(fault)}")


@contextmanager
def opened_logs(targets: Sequence[LogTarget], say: Callable[[str], None]) -> Iterator[FigureLogs]:
    """Open the logs, and close them; ``say`` is told of one that fails. Raises CommandError."""
    logs = FigureLogs({f"{target.kind}:{at}": _opened(target) for at, target in enumerate(targets, 1)}, say)
    try:
        yield logs
    finally:
        logs.close()


def watched_rounds(logs: FigureLogs, store: ContentReader, run: str) -> Callable[[Rounds], None]:
    """Log figures of rounds that have ended; those whose metrics the store does not have yet, at a later call."""
    figures = RoundFigures(store)

    def watch(rounds: Rounds) -> None:
        with suppress(StoreError):
            for number, found in figures.new(rounds) if logs else ():
                logs.write(run, number, found)

    return watch


def _opened(target: LogTarget) -> FigureLog:
    try:
        return _KINDS[target.kind](target.place)
    except (FigureLogFailed, OSError) as fault:
        raise CommandError(f"--log-to {target.kind}: {_sentence(fault)}") from None


def _sentence(fault: Exception) -> str:
    if isinstance(fault, OSError):
        return fault_of_disk(fault) or f"{fault.strerror or fault} ({fault.filename})"
    return str(fault)
