"""Demonstrations: a whole federation on this machine, audited at its end."""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fedgrove.api.history import History
from fedgrove.api.running import Run
from fedgrove.api.tasks import paths_by_name, task_path
from fedgrove.common.text import command_line
from fedgrove.node.base.nested_tables import from_dotted
from fedgrove.node.devnet.demo import DemoPlan
from fedgrove.node.devnet.demo_request import DemoRequest, ServePages, options_of, suggestion
from fedgrove.node.devnet.demonstration import Demonstration, asked_for, demonstrate
from fedgrove.node.devnet.demonstration import resume as go_on
from fedgrove.node.devnet.method_option import TRAINING
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.status.figure_targets import log_targets, opened_logs
from fedgrove.node.tasks.sandbox.modes import AUTO

if TYPE_CHECKING:
    from fedgrove.node.learning.tasks import Task


def demo(
    task: "str | PathLike[str] | type[Task]" = "digits",
    data: str | PathLike[str] | None = None,
    *,
    clients: int = 8,
    rounds: int = 3,
    strategy: str | None = None,
    bases: Mapping[str, str | PathLike[str]] | None = None,
    settings: Mapping[str, object] | None = None,
    table_format: Mapping[str, str] | None = None,
    alpha: float = 0.3,
    masking: Literal["bbtsa", "pairwise"] = "bbtsa",
    drop: float = 0.0,
    epsilon: float = 0.0,
    held_out: float = 0.0,
    patience: int = 0,
    method: str = TRAINING,
    seed: int = 0,
    data_dir: str | PathLike[str] | None = None,
    sandbox: str = AUTO,
    chain: str = "embedded",
    store: str = "disk",
    workers: int = 1,
    portable: bool = False,
    explorer: bool = False,
    out: str | PathLike[str] | None = None,
    log_to: Sequence[str] = (),
    resume: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Run:
    """Run a whole federation on this machine, and audit it.

    Parameters
    ----------
    task : class, path or str
        A subclass of ``fedgrove.Task``, also one of a notebook; a task's folder, or its one Python file; or a data
        set for the shipped networks: digits, mnist, fashion-mnist, cifar10, a .npz file, or module:attribute.
        The class of a file ``task.py`` brings its folder, that of any other file this file alone.
    data : path, optional
        What the task's ``data`` reads: a folder with a source for each client, in the order of their names, and
        perhaps one whose name starts with ``test``; any other is shared out. Required with a task.
    clients, rounds : int
        At least 3 clients.
    strategy : str, optional
        Local training. By default fedaom; for a task without a shared set fedavg.
    bases : mapping, optional
        Paths of the task's frozen bases by name, as ``{"minilm": "models/minilm"}``.
    settings : mapping, optional
        Terms of a task, in place of what its ``terms.toml`` suggests: keys of ``training`` and ``task``, and
        ``masking.bound``, as ``{"training.epochs": 2, "task.options.hidden": 16}``.
    table_format : mapping, optional
        How tables are written, where that is not found: ``delimiter``, ``decimal``, ``encoding``, ``dates``, ``sheet``.
    alpha : float
        Dirichlet concentration of a data set's labels; smaller is more skewed.
    masking : str
        bbtsa or pairwise.
    drop : float
        Fraction of clients that drop out of each round; refused where no round could close.
    epsilon : float
        Budget of client-level differential privacy, at δ = 0.001; 0: masks only.
    held_out : float
        Share of its samples on which each client evaluates the model before it trains; 0: none.
    patience : int
        End when the loss that they find has not fallen for this many rounds; 0: never.
    method : str
        training, or procfl with settings, as ``"procfl, seats = 3"``: similar clients train together.
    seed : int
        Seed of the training; keys and masks never depend on it.
    data_dir : path, optional
        Folder of the data sets; missing ones are downloaded to it.
    sandbox : str
        How the task's code is contained: auto, strict, contained, or off (not at all).
    chain, store : str
        embedded, anvil or an endpoint's URL; disk, kubo (starts a node) or the URL of a Kubo API.
    workers : int
        Training processes, 0 chooses. With more than one, a script needs ``if __name__ == "__main__"``.
    portable : bool
        Train to the same bytes as on any other x86-64 processor with AVX2, in processes of their own.
    explorer : bool
        Serve pages about the run while it goes on; ``progress`` is told their address.
    out : path, optional
        Keep the run here, in a new or empty folder; by default it goes with the ``Run``.
    log_to : sequence of str
        Where to log figures of each round: ``tensorboard:DIR``, ``mlflow:URI`` or ``csv:FILE``.
    resume : bool
        Go on with the run in ``out`` that was interrupted; the other parameters must be those that it began with.
    progress : callable, optional
        Is told what goes on, in a few words; ``print`` will do.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        An option, the data set or its data are not right. The message says which, as do those of all others.
    BundleError
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
        raise ValueError("resume needs out, the directory of the run to go on with")
    plan = DemoPlan(
        clients=clients,
        rounds=rounds,
        alpha=alpha,
        strategy="",
        masking=masking,
        drop=drop,
        seed=seed,
        workers=workers,
        epsilon=epsilon,
        method=method,
        held_out=held_out,
        patience=patience,
        portable=portable,
    )
    words = _Words(progress)
    with task_path(task, data=data) as folder:
        request = DemoRequest(
            plan,
            strategy,
            dataset=str(task),
            data_dir=None if data_dir is None else Path(data_dir),
            task=folder,
            source=None if data is None else Path(data),
            settings=suggestion(from_dotted(settings or {})),
            sandbox=sandbox,
            chain=chain,
            store=store,
            pages=_pages() if explorer else None,
            bases=paths_by_name(bases),
            table_format=dict(table_format or {}),
        )
        with opened_logs(log_targets(log_to), words.say) as logs:
            request = replace(request, figures=logs.write if logs else None)
            return _kept(request, None if out is None else Path(out), words, resume)


def _pages() -> ServePages:
    from fedgrove.node.explorer.live import live_pages  # an extra of its own

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


def _run(request: DemoRequest, directory: Path, audience: _Words, goes_on: bool) -> Demonstration:
    command = command_line("audit", directory)
    if not goes_on:
        return demonstrate(request, directory, audience, command)
    other = _first_difference(asked_for(directory), request)
    if other:
        raise ValueError(f"the run in {directory} began with another {other}: give what it began with")
    return go_on(directory, audience, command, request.pages, request.figures, request.task)


def _first_difference(before: DemoRequest, now: DemoRequest) -> str:
    """The first parameter in which two requests differ, except for what may change; empty where none does."""
    one, other = ({**each.pop("plan"), **each, "task": None, "workers": 0} for each in map(options_of, (before, now)))
    return next((name for name in sorted(one) if one[name] != other[name]), "")


def _kept(request: DemoRequest, out: Path | None, audience: _Words, goes_on: bool) -> Run:
    """The run in ``out``; without it in a temporary folder, which goes with the history that reads it."""
    place = Path(tempfile.mkdtemp(prefix="fedgrove-")) if out is None else out
    directory = out or place / "run"  # what a run keeps next to its directory goes with it
    try:
        done = _run(request, directory, audience, goes_on)
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
