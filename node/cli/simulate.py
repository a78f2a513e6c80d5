"""``fedgrove simulate``: federated learning of many clients, without chain and store."""

import re
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from fedgrove.node.base.files import AlreadyInUse, write_atomically
from fedgrove.node.base.inline import inline_table
from fedgrove.node.base.strict_toml import parse_toml
from fedgrove.node.cli.options import Sandbox
from fedgrove.node.cli.output import FAILED, CommandError, console, print_json, read_seeds
from fedgrove.node.cli.simulated_runs import SimulatedRun, print_runs
from fedgrove.node.lab.simulation.checkpoint import InvalidCheckpoint, check_directory
from fedgrove.node.lab.simulation.clustered.settings import METHODS
from fedgrove.node.lab.simulation.executors import NoExecutor, open_executor
from fedgrove.node.lab.simulation.plan import InvalidPlan, Plan
from fedgrove.node.lab.simulation.plan_file import GivenPlan, Tables, plan_bytes, read_plan
from fedgrove.node.lab.simulation.record import RunRecord
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.learning.settings import STRATEGIES
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.training.task_data import TaskFailed
from fedgrove.node.sandbox.modes import AUTO, choose

if TYPE_CHECKING:
    from fedgrove.node.lab.simulation.task_folder import (
        OpenedTask,  # brings the sandbox, which reading a plan does without
    )

PLAN = "plan.toml"


@dataclass(frozen=True)
class SimulationRequest:
    """What the command was asked for: the plan as it was given, one a seed, and where to run and keep it."""

    given: GivenPlan
    plans: Sequence[Plan]
    data_dir: Path | None
    sandbox: str
    executor: str
    workers: int
    out: Path | None
    resume: bool


def simulate(
    plan: Annotated[
        Path | None, typer.Option(help="A plan, or a federation's file (TOML); the next options change its keys.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Another value for a key of the plan; may be repeated."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="digits (default), mnist, fashion-mnist, cifar10, a file, or module:attribute.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; missing ones are downloaded to it.")
    ] = None,
    task: Annotated[Path | None, typer.Option(help="Folder with a task of your own, instead of a dataset.")] = None,
    source: Annotated[
        Path | None, typer.Option("--data", help="What the task's data() reads; a folder with one for each client.")
    ] = None,
    sandbox: Sandbox = AUTO,
    clients: Annotated[int | None, typer.Option(help="How many clients there are (100).")] = None,
    rounds: Annotated[int | None, typer.Option(help="Communication rounds (100).")] = None,
    strategy: Annotated[
        str | None, typer.Option(help=f"Local training: {', '.join(STRATEGIES)} (default: fedavg).")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Concentration of the labels per client; small is skewed (0.3).")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD[, NAME = VALUE …]",
            help="Models for clients with similar data: procfl, ifca or global with settings; or training (default).",
        ),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds of the randomness, one run each: 0,1,2.")] = None,
    executor: Annotated[
        str, typer.Option(help="inline, processes, or dask=tcp://HOST:PORT of a scheduler.")
    ] = "processes",
    workers: Annotated[int, typer.Option(min=0, max=1024, help="Processes; 0 starts one per core.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Keep checkpoints, records and figures here.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records to stdout.")] = False,
) -> None:
    """Train many clients on this machine's cores or on a cluster; the same plan gives the same bytes anywhere.

    Example: fedgrove simulate --clients 100 --rounds 20 --strategy fedaom --alpha 0.1 --seeds 0,1,2 --out runs/skewed
    """
    named = {
        "data.dataset": dataset,
        "task.folder": task and str(task),
        "data.source": source and str(source),
        "simulation.clients": clients,
        "federation.rounds": rounds,
        "strategy.name": strategy,
        "partition.alpha": alpha,
    }
    changes = [_nested(key, value) for key, value in named.items() if value is not None]
    changes += [_setting(each) for each in change or []]
    given = read_plan(plan, changes, None if method is None else _method(method))
    if resume and out is None:
        raise CommandError("--resume needs --out, the directory of the run to go on with")
    numbers = [given.plan.seed] if seeds is None else read_seeds(seeds)
    plans = [given.plan.with_seed(number) for number in numbers]
    try:
        runs = _run_all(SimulationRequest(given, plans, data_dir, sandbox, executor, workers, out, resume))
    except InvalidPlan as mistake:
        raise CommandError(f"{plan}: {mistake}" if plan else str(mistake)) from None
    if as_json:
        print_json({"runs": [{"record": run.record.to_json(), "seconds": run.seconds} for run in runs]})
    else:
        print_runs(runs)


def _run_all(request: SimulationRequest) -> list[SimulatedRun]:
    """Run one plan after the other, and draw the figures; every end of a run in one sentence."""
    out = request.out
    go_on = f"; what is done is kept in {out}, --resume goes on" if out else ""
    try:
        if out is not None:
            for plan in request.plans:
                check_directory(_directory(out, plan), plan, request.resume)
            _make(out)
        # The processes load torch while this one does, and reads the data.
        with open_executor(request.executor, request.workers) as (pool, count):
            return _run_on(pool, count, request)
    except (NoExecutor, InvalidCheckpoint, AlreadyInUse) as mistake:
        raise CommandError(str(mistake)) from None
    except OSError as fault:
        raise CommandError(f"{fault.strerror or fault}: {fault.filename or out or 'no file'}{go_on}") from None
    except CommandError as failure:
        raise CommandError(f"{failure}{go_on}" if failure.code == FAILED else str(failure), failure.code) from None
    except KeyboardInterrupt:
        raise CommandError(f"stopped{go_on}", 130) from None


def _run_on(pool: Executor, workers: int, request: SimulationRequest) -> list[SimulatedRun]:
    from fedgrove.node.cli.rounds_progress import RoundsDisplay
    from fedgrove.node.lab.simulation.kinds import simulation_of
    from fedgrove.node.lab.simulation.workers import SimulationFailed
    from fedgrove.node.learning.training import DivergedTraining

    runs = []
    with ExitStack() as stack:
        subject = _subject(request, stack)
        display = stack.enter_context(RoundsDisplay(sum(plan.rounds for plan in request.plans)))
        for plan in request.plans:
            started = time.monotonic()
            directory = _directory(request.out, plan) if request.out else None
            simulation = simulation_of(plan, subject, pool, workers, directory, request.resume, display.compared)
            display.begin(f"seed {plan.seed}", plan.rounds)
            try:
                for result in simulation.run():
                    display.advance(result)
            except (DivergedTraining, SimulationFailed, TaskFailed) as fault:
                raise CommandError(str(fault), FAILED) from None
            if directory is not None:
                write_atomically(directory / PLAN, plan_bytes(plan))
            runs.append(SimulatedRun(simulation.record, round(time.monotonic() - started, 3)))
    if request.out is not None:
        _draw([run.record for run in runs], subject, request.out)
    return runs


def _subject(request: SimulationRequest, stack: ExitStack) -> "Dataset | OpenedTask":
    """The data set, or the user's own task, whose processes the stack ends."""
    from fedgrove.node.lab.simulation.task_folder import opened_task
    from fedgrove.node.learning.datasets import load_dataset

    plan = request.plans[0]
    if plan.task is not None:
        return stack.enter_context(opened_task(plan, choose(request.sandbox)))
    dataset = load_dataset(plan.dataset, request.data_dir)
    request.given.check_data(dataset)
    return dataset


def _draw(records: list[RunRecord], subject: "Dataset | OpenedTask", out: Path) -> None:
    """Accuracy over the rounds, the partition of the first seed, and accuracy out of distribution where probed."""
    from fedgrove.node.lab.simulation import figures
    from fedgrove.node.lab.simulation.data import deal_data
    from fedgrove.node.lab.simulation.task_folder import OpenedTask

    plan = records[0].plan
    try:
        if all(record.rounds[-1].accuracy is not None for record in records):
            figures.accuracy_figure({plan.strategy: records}, out / "accuracy.png")
        if not isinstance(subject, OpenedTask):
            data = deal_data(plan, subject, with_shared=False)
            figures.partition_figure(data.training.y, data.parts, out / "partition.png")
        if plan.clustering is not None:
            figures.personal_figure({plan.clustering.method: records}, out / "personal.png")
        if isinstance(plan.clustering, ProCflSettings):
            for record in records:
                _draw_clusters(_directory(out, record.plan))
        if any(result.ood_accuracy is not None for result in records[0].rounds):
            figures.ood_figure({plan.strategy: records}, out / "ood.png")
    except figures.FiguresUnavailable as fault:
        console.print(f"No figures: {fault}", soft_wrap=True, markup=False)
    console.print(f"Kept in {out}", soft_wrap=True, markup=False)


def _draw_clusters(directory: Path) -> None:
    """The matrix of similarities and the clusters, of one seed."""
    from fedgrove.node.lab.simulation import figures
    from fedgrove.node.lab.simulation.clustered.similarity import read_clusters

    found = read_clusters(directory)
    figures.clusters_figure(found.similarity.ism, found.members, found.attackers, directory / "clusters.png")


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise CommandError(f"cannot make the directory {out}: {fault.strerror}") from None


def _directory(out: Path, plan: Plan) -> Path:
    return out / f"seed-{plan.seed}"


def _setting(given: str) -> Tables:
    """The tables of a change like ``training.epochs=2``; a word that is no TOML value is a string."""
    key, equals, value = given.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts) or len(parts) not in (2, 3):
        raise CommandError(f"--set must be TABLE.KEY=VALUE, such as training.epochs=2, not {given!r}")
    try:
        return _nested(key.strip(), parse_toml(f"value = {value}".encode())["value"])
    except ValueError as fault:
        if re.fullmatch(r"\s*[A-Za-z][\w./:-]*\s*", value):
            return _nested(key.strip(), value.strip())
        raise CommandError(f"--set {key.strip()} must have a TOML value, not {value!r}: {fault}") from None


def _nested(key: str, value: object) -> Tables:
    """Tables with one key, given with the dots between its parts."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return cast(Tables, value)


def _method(given: str) -> Tables:
    """The table of a method, from its name and what the table would hold, on one line; none for ``training``."""
    try:
        name, table = inline_table(given)
    except tomllib.TOMLDecodeError as fault:
        raise CommandError(
            f"--method must be like 'procfl, alpha = 0.5, psi = 'ecdh'', not {given!r}: {fault}"
        ) from None
    if name not in ("training", *METHODS) or (name == "training" and table):
        raise CommandError(f"--method must be training, or one of {', '.join(METHODS)} and settings, not {given!r}")
    return {} if name == "training" else {name: table}
