"""Live progress of simulated rounds: how far, how fast, how long still."""

import time

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from fedgrove.common.text import duration
from fedgrove.node.cli.output import note, progress_bar
from fedgrove.node.simulation.record import RoundResult

# Where nobody watches a terminal, at most one line in this many seconds.
LINE_SECONDS = 30.0


class RoundsDisplay:
    """Shows the rounds of one or several runs; on a terminal one live bar, elsewhere a line now and then.

    Parameters
    ----------
    total : int
        Rounds of all runs together, those before a resumed checkpoint too.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._before = 0  # rounds of the runs that have ended
        self._rounds = 0  # of the run that goes on
        self._at = 0
        self._done_here = 0
        self._label = ""
        self._found = ""  # how the global model did, last
        self._started = self._last_line = time.monotonic()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}"),
        )
        bar = progress_bar(*columns)
        self._bar = None if bar.disable else bar

    def __enter__(self) -> "RoundsDisplay":
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("starting", total=self._total, pace="")
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, label: str, rounds: int) -> None:
        """Start or continue the display of a run of this many rounds; 0: comparisons only."""
        self._before += self._rounds
        self._label, self._rounds, self._at, self._found = label, rounds, 0, ""
        if rounds:
            self._show(always=True)

    def advance(self, result: RoundResult) -> None:
        """A round of it has ended."""
        self._at = result.round
        self._done_here += 1
        if result.accuracy is not None:
            self._found = f", accuracy {result.accuracy:.4f}"
        elif result.loss is not None:
            self._found = f", loss {result.loss:.4f}"
        self._show(always=self._at == self._rounds)

    def compared(self, done: int, total: int) -> None:
        """Show how many of the private comparisons are done; they come before the first round."""
        if self._bar is not None:
            text = f"{self._label}: {done} of {total} pairs of clients compared"
            self._bar.update(self._task, description=text, pace="")
        elif done == total or time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            note(f"{self._label}: {done} of {total} pairs of clients compared")

    @property
    def pace(self) -> str:
        """Rounds a minute since the start, and the time left at that pace."""
        seconds = time.monotonic() - self._started
        if self._done_here == 0 or seconds <= 0:
            return ""
        rate = self._done_here / seconds
        return f"{60 * rate:.3g} rounds/min, {duration((self._total - self._before - self._at) / rate)} left"

    def _show(self, always: bool) -> None:
        if self._bar is not None:
            text = f"{self._label}: round {self._at} of {self._rounds}{self._found}"
            self._bar.update(self._task, completed=self._before + self._at, description=text, pace=self.pace)
            return
        if always or time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            overall = f"{self._before + self._at} of {self._total} in all"
            pace = f"; {self.pace}" if self.pace else ""
            text = f"{self._label}: round {self._at} of {self._rounds}{self._found} ({overall}{pace})"
            note(text)
