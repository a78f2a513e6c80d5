"""Live progress of a run, and the tables at its end."""

import time
from collections.abc import Callable
from typing import TypeVar

from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from fedgrove.common.text import duration
from fedgrove.node.audit.auditor import Progress
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.cli.output import answer, answer_with, live_note, note, progress_bar
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.status.rounds import Round

_Found = TypeVar("_Found")
_DONE = {"drew": "drawn", "shared": "shared", "committed": "committed", "released shares": "released"}


class DemoDisplay:
    """Shows round, phase, who has acted and who is waited for, while the run goes on.

    On a terminal it is one live panel above a log; elsewhere one line an event that matters.

    Attributes
    ----------
    sat_out : str
        Why a client sat out the latest round; empty if none did.
    """

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._round = 0
        self._phase = "set-up"
        self._waiting = ""
        self._result = "none yet"
        self._acted: dict[str, list[str]] = {}
        self._reasons: set[str] = set()
        self.sat_out = ""
        self._gas = 0
        self._started = self._opened = self._last_end = time.monotonic()  # opened: the first round that counts
        self._before = self._closed = 0  # rounds that closed before an interruption, and since
        self._live = live_note()

    def __enter__(self) -> "DemoDisplay":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()

    def observe(self, role: str, step: Step) -> None:
        """Take in one step of one role."""
        self._gas += step.gas
        if role == "coordinator":
            self._coordinator(step)
        elif role == "chain":
            self._line(f"waiting: {step.waiting}")
        elif step.acted:
            done, _, caution = step.acted.partition("; ")
            self._acted.setdefault(done, []).append(role.removeprefix("client "))
            if step.warns and caution not in self._reasons:
                self._reasons.add(caution)
                self._line(f"round {self._round}: {role} {step.acted}")
        elif step.kind is Kind.SITS_OUT and step.waiting not in self._reasons:
            self._reasons.add(step.waiting)
            self.sat_out = step.waiting.removeprefix("this client: ")
            self._line(f"round {self._round}: {role} sits out: {self.sat_out}")
        self._refresh()

    def say(self, phase: str) -> None:
        """Describe the current activity."""
        self._phase, self._waiting = phase, ""
        self._line(phase)
        self._refresh()

    def goes_on(self, number: int) -> None:
        """Count on from the round in which the run was interrupted."""
        self._round = number
        self._before, self._opened = max(0, number - 1), time.monotonic()
        self._line(f"going on in round {number}")

    def _coordinator(self, step: Step) -> None:
        self._phase, self._waiting = step.phase, step.waiting
        if step.kind is Kind.OPENED:
            self._round += 1
            if not self._closed:
                self._opened = time.monotonic()
            self._acted.clear()
            self._reasons.clear()
            self.sat_out = ""
        if step.kind is Kind.ENDED:
            self._result = f"round {self._round}: {step.acted}"
        if step.acted.startswith("closed"):
            self._closed, self._last_end = self._closed + 1, time.monotonic()
            if self.left:
                self._line(self.left)
        if step.acted:
            self._line(f"round {self._round}: coordinator {step.acted}" if self._round else f"coordinator {step.acted}")

    @property
    def left(self) -> str:
        """About how long the rounds still take, by those that closed; empty until one has, and at the end."""
        rounds = self._rounds - self._before - self._closed
        if not self._closed or rounds <= 0:
            return ""
        each = (self._last_end - self._opened) / self._closed
        return (
            f"about {duration(max(0.0, rounds * each - (time.monotonic() - self._last_end)))} left for {rounds} rounds"
        )

    def _line(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(Text(text, style="dim"))
        else:
            note(text)

    def _refresh(self) -> None:
        if self._live is None:
            return
        rows = [
            ("round", f"{self._round} of {max(self._round, self._rounds)}"),
            ("phase", self._phase),
            *((name, " ".join(self._acted[word])) for word, name in _DONE.items() if word in self._acted),
            ("waiting for", self._waiting or "nobody"),
            ("last result", self._result),
            ("gas", f"{self._gas:,}"),
            ("seconds", f"{time.monotonic() - self._started:.0f}"),
            *([("time left", self.left)] if self.left else []),
        ]
        table = Table.grid(padding=(0, 2))
        for name, value in rows:
            table.add_row(Text(name, style="bold"), Text(value))
        self._live.update(table)


def with_progress(work: Callable[[Progress], _Found]) -> _Found:
    """Run an audit with a bar on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with progress_bar(*columns) as bar:
        task = bar.add_task("checking records", total=None)
        return work(lambda done, of_all: bar.update(task, completed=done, total=of_all, refresh=done == of_all))


def print_rounds(report: dict) -> None:
    """The table of rounds at the end of a run; it fits a terminal of 80 columns."""
    table = Table(title="Rounds", box=box.SIMPLE_HEAD)
    for heading in ("round", "status", "accuracy", "loss", "clients", "dropped", "Mgas", "seconds"):
        table.add_column(heading, justify="right", overflow="fold")
    rounds = [Round.from_dict(each) for each in report["rounds"]]
    for each in rounds:
        table.add_row(
            str(each.round),
            each.outcome,
            *("-" if score is None else f"{score:.4f}" for score in (each.accuracy, each.loss)),
            f"{each.committed} of {each.drawn}",
            ", ".join(map(str, each.dropped)) or "-",
            f"{(each.gas_used or 0) / 1e6:.2f}",
            f"{each.seconds or 0:.1f}",
        )
    answer_with(table)
    for each in rounds:
        if each.members is not None:
            model = "for the last model" if each.only_evaluated else f"before round {each.round}"
            answer(f"members {model}: {each.members_found}")
        if each.raised:
            answer(f"round {each.round}: {each.unable}")
        if each.ending and not each.only_evaluated:
            answer(f"ended after round {each.round}: {each.ending}")
    if "clusters" in report:
        members = [", ".join(map(str, cluster)) or "nobody" for cluster in report["clusters"]["members"]]
        answer(f"clusters: {' | '.join(members)}")
    if rounds:
        answer(f"model: {rounds[-1].model_cid}")


def print_verdict(verdict: Verdict) -> None:
    """The auditor's last word."""
    if verdict.holds:
        counted = f", {verdict.rounds} rounds, {verdict.records} records"
        style = "bold yellow" if verdict.exit_code else "bold green"
        answer_with(Text.assemble("audit: ", (verdict.word, style), counted))
        done = "consistent" if verdict.exit_code else "verified"
        answer(f"{done} up to block {verdict.head_block}, hash {verdict.head_hash}")
        if verdict.before is not None:
            answer(str(verdict.before))
        for clause in verdict.pinned:
            answer(f"pinned: {clause}")
        for clause in verdict.vouched:
            answer(clause)
        if verdict.unpinned:
            answer(f"open: {verdict.unpinned}")
        for caveat in verdict.caveats:
            answer(f"but: {caveat}")
    else:
        answer_with(Text.assemble("audit: ", (verdict.verdict, "bold red"), f": {verdict.reason}"))
    if verdict.privacy is not None:
        answer(f"privacy: {verdict.privacy}")
    for remark in verdict.remarks:
        answer(f"remark: {remark}")
