"""Where the figures of rounds are logged: texts such as ``csv:FILE``, and the logs that they name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fedgrove.common.errors import InvalidInput, RunFailed
from fedgrove.ipfs.store import ContentReader, StoreError
from fedgrove.node.base.figure_logs import CsvLog, FigureLog, MlflowLog, TensorBoardLog
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.status.rounds import Round, RoundReader

_KINDS: dict[str, Callable[[str], FigureLog]] = {
    "tensorboard": lambda place: TensorBoardLog(Path(place)),
    "mlflow": MlflowLog,
    "csv": lambda place: CsvLog(Path(place)),
}
EXTRAS = ("tensorboard", "mlflow")
"""Kinds that need a package of their own, an extra of the same name."""


@dataclass(frozen=True)
class LogTarget:
    """Kind of a log, and its folder, file or address."""

    kind: str
    place: str


def log_targets(given: Sequence[str], option: str = "log_to") -> tuple[LogTarget, ...]:
    """The targets that texts name; InvalidInput, which names the option, for one that cannot be."""
    found = []
    for text in given:
        kind, _, place = text.partition(":")
        if kind not in _KINDS or not place:
            raise InvalidInput(f"{option} must be tensorboard:DIR, mlflow:URI or csv:FILE, not {kind!r}")
        found.append(LogTarget(kind, place))
    return tuple(found)


def _plainly(fault: Exception) -> str:
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror if fault.filename is None else f"{fault.strerror} ({fault.filename})"
    return str(fault)


class FigureLogs:
    """Any number of logs. One that fails is closed, with a sentence: training goes on without it.

    Parameters
    ----------
    say : callable
        Told of a log that fails.
    explain : callable, optional
        The sentence for an error of the disk.
    """

    def __init__(
        self,
        logs: Mapping[str, FigureLog],
        say: Callable[[str], None],
        explain: Callable[[Exception], str] = _plainly,
    ) -> None:
        self._logs, self._say, self._explain = dict(logs), say, explain

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
            except (RunFailed, OSError) as fault:
                del self._logs[kind]
                self._say(f"nothing more is logged to {kind}: {self._explain(fault)}")


@contextmanager
def opened_logs(
    targets: Sequence[LogTarget],
    say: Callable[[str], None],
    explain: Callable[[Exception], str] = _plainly,
    option: str = "log_to",
) -> Iterator[FigureLogs]:
    """Open the logs, and close them; see ``FigureLogs``. Raises InvalidInput for one that cannot be opened."""
    found = {f"{target.kind}:{at}": _opened(target, explain, option) for at, target in enumerate(targets, 1)}
    logs = FigureLogs(found, say, explain)
    try:
        yield logs
    finally:
        logs.close()


class EndedRounds:
    """Returns each round that has ended once.

    Parameters
    ----------
    store : ContentReader
        Where closed rounds' metrics are; what is malformed states nothing, which is for members to dispute.
    """

    def __init__(self, store: ContentReader) -> None:
        self._reader = RoundReader(store, strict=False)
        self._passed: set[int] = set()

    def new(self, rounds: Rounds) -> Iterator[Round]:
        """Rounds that have ended since the last call.

        Raises
        ------
        StoreError
            A round's blobs cannot be read; a later call begins with this round.
        """
        for current in rounds.ended():
            if current.number not in self._passed:
                found = self._reader.one(rounds, current)
                self._passed.add(current.number)
                yield found


def logged_figures(found: Round) -> dict[str, float]:
    """What logs draw of a round that has ended: who took part, in how many blocks, and what was stated of it."""
    blocks = (found.ended_block or 0) - (found.opened_block or 0)
    return {"drawn": found.drawn, "committed": found.committed, "blocks": blocks, **found.numbers(of_method=False)}


def watched_rounds(logs: FigureLogs, store: ContentReader, run: str) -> Callable[[Rounds], None]:
    """Log figures of rounds that have ended; those whose metrics the store does not have yet, at a later call."""
    figures = EndedRounds(store)

    def watch(rounds: Rounds) -> None:
        with suppress(StoreError):
            for each in figures.new(rounds) if logs else ():
                logs.write(run, each.round, logged_figures(each))

    return watch


def _opened(target: LogTarget, explain: Callable[[Exception], str], option: str) -> FigureLog:
    try:
        return _KINDS[target.kind](target.place)
    except (RunFailed, OSError) as fault:
        raise InvalidInput(f"{option} {target.kind}: {explain(fault)}") from None
