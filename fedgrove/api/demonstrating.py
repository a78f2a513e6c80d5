"""Demonstrations: a whole federation on this machine, audited at its end."""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrove.api.describing import described
from fedgrove.api.history import History
from fedgrove.api.running import Run
from fedgrove.common.errors import InvalidInput
from fedgrove.common.text import command_line
from fedgrove.node.audit.succession import Continuation, continuation
from fedgrove.node.base.nested_tables import Tables
from fedgrove.node.devnet import demonstration
from fedgrove.node.devnet.demonstration import Demonstration, ServePages, Spectators, begun_with
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.scenario.reading import IN_PYTHON, difference
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.status.figure_targets import log_targets, opened_logs

if TYPE_CHECKING:
    from fedgrove.node.learning.tasks import Task

MAY_CHANGE = ("run.workers", "run.explorer", "task.folder")
"""Keys whose values may be others when a run goes on."""


def demo(
    subject: "Scenario | str | PathLike[str] | type[Task]" = "digits",
    data: str | PathLike[str] | None = None,
    *,
    clients: int | None = None,
    rounds: int | None = None,
    strategy: str | None = None,
    seed: int | None = None,
    settings: Mapping[str, object] | None = None,
    out: str | PathLike[str] | None = None,
    resume: bool = False,
    continues: str | PathLike[str] | History | None = None,
    log_to: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
    **named: Any,
) -> Run:
    """Run a whole federation on this machine, and audit it.

    Parameters
    ----------
    subject : Scenario, class, path or str
        A ``Scenario``; or a subclass of ``fedgrove.Task``, also one of a notebook; a task's folder, or its one Python
        file; or a data set for the shipped networks: digits, mnist, fashion-mnist, cifar10, a .npz file, or
        module:attribute. The class of a file ``task.py`` brings its folder, that of any other file this file alone.
    data : path, optional
        What the task's ``data`` reads: a folder with a source for each client, in the order of their names, and
        perhaps one whose name starts with ``test``; any other is shared out. Required with a task.
    clients, rounds : int, optional
        At least 3 clients; by default 8, and 3 rounds.
    strategy : str, optional
        Local training. By default fedaom; for a task without a shared set fedavg.
    seed : int, optional
        Seed of the training (0); keys and masks never depend on it.
    settings : mapping, optional
        Values of any keys of the scenario, as ``{"training.epochs": 2, "task.options.hidden": 16}``.
    out : path, optional
        Keep the run here, in a new or empty folder; by default it goes with the ``Run``.
    resume : bool
        Go on with the run in ``out`` that was interrupted; the other parameters must be those that it began with.
    continues : path or History, optional
        Train on from the last model of this earlier federation, once its history is verified: a run's directory, a CAR
        file, or a ledger's ``History``.
    log_to : sequence of str
        Where to log figures of each round: ``tensorboard:DIR``, ``mlflow:URI`` or ``csv:FILE``.
    progress : callable, optional
        Is given what goes on, in a few words; ``print`` will do.
    **named
        Values of other keys by their short names, the options of ``fedgrove demo``: ``drop=0.25``, ``held_out=0.2``,
        ``bases={"minilm": "models/minilm"}``. With ``workers`` above 1 a script needs ``if __name__ == "__main__"``.

    Returns
    -------
    Run

    Raises
    ------
    InvalidInput
        A value, the data set or its data are not right. The message says which, as do those of all others.
    InvalidInput
        The task cannot be packed.
    CannotTakePart, SandboxUnavailable
        The task's code failed (``TaskFailed``), or nothing contains it here.
    ChainError, StoreError, DemoFailed
        Chain or store do not answer, or the run came to a standstill.

    Examples
    --------
    >>> import fedgrove as fg
    >>> run = fg.demo("digits", clients=4, rounds=1, strategy="fedavg")
    >>> run.verdict.verdict
    'verified'
    >>> [(each.round, each.status, each.committed_clients) for each in run.rounds]
    [(1, 'closed', (1, 2, 3, 4))]
    """
    if resume and out is None:
        raise InvalidInput("resume needs out, the directory of the run to go on with")
    if resume and continues is not None:
        raise InvalidInput("resume goes on with the run as it began: leave continues out")
    words = _Words(progress)
    named = {"clients": clients, "rounds": rounds, "strategy": strategy, "seed": seed, **named}
    with (
        described(subject, data, named, settings, preset=IN_PYTHON) as (scenario, changes),
        opened_logs(log_targets(log_to), words.say) as logs,
    ):
        place = None if out is None else Path(out)
        pages = _pages() if scenario.run.explorer else None
        spectators = Spectators(words, command_line("audit", place or "DIR"), pages, logs.write if logs else None)
        earlier = None if continues is None else _earlier(continues)
        return _kept(scenario, changes, spectators, place, resume, earlier)


def _earlier(continues: str | PathLike[str] | History) -> Continuation:
    history = continues if isinstance(continues, History) else History(continues)
    return continuation(history.ledger, history.store)


def _pages() -> ServePages:
    from fedgrove.node.explorer.server import live_pages  # an extra of its own

    return live_pages


class _Words:
    """Passes on what goes on in a demonstration as words: all that the coordinator does, and who sits out."""

    def __init__(self, progress: Callable[[str], None] | None) -> None:
        self._progress = progress

    def say(self, phase: str) -> None:
        if self._progress is not None:
            self._progress(phase)

    def goes_on(self, number: int) -> None:
        self.say(f"going on in round {number}")

    def observe(self, role: str, step: Step) -> None:
        if step.kind is Kind.SITS_OUT:
            self.say(f"{role} sits out: {step.waiting}")
        elif role == "chain":
            self.say(f"waiting: {step.waiting}")
        elif step.acted and role == "coordinator":
            self.say(f"{role} {step.acted}")


def _run(
    scenario: Scenario,
    changes: Tables,
    spectators: Spectators,
    directory: Path,
    goes_on: bool,
    earlier: Continuation | None,
) -> Demonstration:
    if not goes_on:
        return demonstration.demonstrate(scenario, directory, spectators, earlier)
    other = difference(begun_with(directory), changes, MAY_CHANGE)
    if other:
        raise InvalidInput(f"the run in {directory} began with another {other}: give what it began with")
    return demonstration.resume(directory, spectators, Path(scenario.task.folder) if scenario.task else None)


def _kept(
    scenario: Scenario,
    changes: Tables,
    spectators: Spectators,
    out: Path | None,
    goes_on: bool,
    earlier: Continuation | None,
) -> Run:
    """The run in ``out``; without it in a temporary folder, which goes with the history that reads it."""
    place = Path(tempfile.mkdtemp(prefix="fedgrove-")) if out is None else out
    directory = out or place / "run"  # what a run keeps next to its directory goes with it
    try:
        done = _run(scenario, changes, spectators, directory, goes_on, earlier)
        history = History(directory)
    except BaseException:
        if out is None:
            shutil.rmtree(place, ignore_errors=True)
        raise
    if out is None:
        weakref.finalize(history, shutil.rmtree, place, ignore_errors=True)
    return Run(
        directory,
        history.rounds,
        done.report,
        history.state_arrays,
        history=history,
        verdict=done.verdict,
    )
