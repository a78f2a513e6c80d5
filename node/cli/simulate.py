"""``fedgrove simulate``: federated learning of many clients, without chain and store."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from fedgrove.node.base.files import AlreadyInUse
from fedgrove.node.base.nested_tables import Tables, nested
from fedgrove.node.cli.bases import BaseOptions, given_bases
from fedgrove.node.cli.log_to import LogTarget, LogTo, log_targets, opened_logs
from fedgrove.node.cli.options import Sandbox
from fedgrove.node.cli.output import FAILED, CommandError, answer, complain, note, print_json, read_seeds
from fedgrove.node.cli.setting import setting
from fedgrove.node.cli.simulated_runs import print_runs
from fedgrove.node.cli.values import words
from fedgrove.node.learning.settings import DATASETS, STRATEGIES
from fedgrove.node.methods.training.task_data import TaskFailed
from fedgrove.node.simulation.checkpoint import InvalidCheckpoint
from fedgrove.node.simulation.executors import NoExecutor
from fedgrove.node.simulation.figures import FiguresUnavailable
from fedgrove.node.simulation.logged_rounds import LoggedRounds
from fedgrove.node.simulation.plan import InvalidPlan
from fedgrove.node.simulation.plan_file import method_table, read_plan
from fedgrove.node.simulation.session import SUITED, SimulatedRun, SimulationRequest, open_session
from fedgrove.node.tasks.sandbox.modes import AUTO


def simulate(
    plan: Annotated[
        Path | None, typer.Option(help="A plan, or a federation's file (TOML); the next options change its keys.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Another value for a key of the plan; may be repeated."),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Data set for the shipped networks (digits); FILE: .npz or .safetensors, or module:attribute.",
            **words(*DATASETS, other="FILE"),
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; missing ones are downloaded to it.")
    ] = None,
    task: Annotated[Path | None, typer.Option(help="Folder with a task of your own, instead of a dataset.")] = None,
    source: Annotated[
        Path | None, typer.Option("--data", help="What the task's data() reads; a folder with one for each client.")
    ] = None,
    base: BaseOptions = None,
    sandbox: Sandbox = AUTO,
    clients: Annotated[int | None, typer.Option(help="How many clients there are (100).")] = None,
    rounds: Annotated[int | None, typer.Option(help="Communication rounds (100).")] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help=f"Local training: {', '.join(STRATEGIES)} (default: fedavg).", **words(*STRATEGIES, metavar="STRATEGY")
        ),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Concentration of the labels per client; small is skewed (0.3).")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            **words("training", "procfl", "ifca", "global", metavar="METHOD[, NAME = VALUE …]"),
            help="Models for clients with similar data: procfl, ifca or global with settings; or training (default).",
        ),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds of the randomness, one run each: 0,1,2.")] = None,
    executor: Annotated[
        str,
        typer.Option(
            help="Where clients train; dask=… is a scheduler of Dask.",
            **words("auto", "inline", "processes", other="dask=tcp://HOST:PORT"),
        ),
    ] = SUITED,
    workers: Annotated[int, typer.Option(min=0, max=1024, help="Processes; 0 starts one per core, if any.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Keep checkpoints, records and figures here.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    log_to: LogTo = None,
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
    changes = [nested(key, value) for key, value in named.items() if value is not None]
    changes += [setting(each) for each in change or []]
    given = read_plan(plan, changes, None if method is None else _method(method))
    if given.left_out:
        note(given.left_out)
    if resume and out is None:
        raise CommandError("--resume needs --out, the directory of the run to go on with")
    numbers = [given.plan.seed] if seeds is None else read_seeds(seeds)
    plans = [given.plan.with_seed(number) for number in numbers]
    bases, targets = given_bases(base), log_targets(log_to)
    request = SimulationRequest(given, plans, data_dir, sandbox, executor, workers, out, resume, bases)
    try:
        runs = _run_all(request, targets)
    except InvalidPlan as mistake:
        raise CommandError(f"{plan}: {mistake}" if plan else str(mistake)) from None
    if as_json:
        print_json({"runs": [{"record": run.record.to_json(), "seconds": run.seconds} for run in runs]})
    else:
        print_runs(runs)
        if out is not None:
            answer(f"Kept in {out}")


def _run_all(request: SimulationRequest, targets: tuple[LogTarget, ...]) -> list[SimulatedRun]:
    """Run one plan after the other, and draw the figures; every end of a run in one sentence."""
    out = request.out
    go_on = f"; what is done is kept in {out}, --resume goes on" if out else ""
    try:
        return _run_on(request, targets)
    except (NoExecutor, InvalidCheckpoint, AlreadyInUse) as mistake:
        raise CommandError(str(mistake)) from None
    except OSError as fault:
        raise CommandError(f"{fault.strerror or fault}: {fault.filename or out or 'no file'}{go_on}") from None
    except CommandError as failure:
        raise CommandError(f"{failure}{go_on}" if failure.code == FAILED else str(failure), failure.code) from None
    except KeyboardInterrupt:
        raise CommandError(f"stopped{go_on}", 130) from None


def _run_on(request: SimulationRequest, targets: tuple[LogTarget, ...]) -> list[SimulatedRun]:
    with ExitStack() as stack:
        logs = stack.enter_context(opened_logs(targets, complain))
        session = stack.enter_context(open_session(request))
        # Imported here, when the workers have been started: these bring torch.
        from fedgrove.node.cli.rounds_progress import RoundsDisplay
        from fedgrove.node.learning.local_update import DivergedTraining
        from fedgrove.node.simulation.workers import SimulationFailed

        display = stack.enter_context(RoundsDisplay(sum(plan.rounds for plan in request.plans)))
        watcher = LoggedRounds(display, logs)
        try:
            runs = [session.run(plan, watcher) for plan in request.plans]
        except (DivergedTraining, SimulationFailed, TaskFailed) as fault:
            raise CommandError(str(fault), FAILED) from None
        if request.out is not None:
            try:
                session.draw([run.record for run in runs])
            except FiguresUnavailable as fault:
                note(f"No figures: {fault}")
    return runs


def _method(given: str) -> Tables:
    try:
        return method_table(given)
    except InvalidPlan as mistake:
        raise CommandError(f"--{mistake}") from None
