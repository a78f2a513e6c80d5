"""``fedgrove experiment``: the paper's experiments, each one command that writes tables, figures and JSON."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from fedgrove.node.base.files import cache_folder
from fedgrove.node.cli.output import CommandError, answer, answer_with, note, print_json, read_seeds
from fedgrove.node.cli.values import words

if TYPE_CHECKING:  # these need torch, which the other commands do without
    from fedgrove_lab.experiments.laboratory import ExperimentRequest, OpenExecutor


def experiment(
    name: Annotated[str, typer.Argument(help="Name of the experiment; `list` names all of them.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of the datasets; missing ones are downloaded to it.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results (docs/results/NAME).")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds, for example 0,1,2; by default the experiment's own.")] = "",
    rounds: Annotated[int, typer.Option(min=0, help="Communication rounds; 0: the experiment's own.")] = 0,
    arms: Annotated[str, typer.Option(help="Strategies to run, for example fedavg,moon.")] = "",
    only: Annotated[str, typer.Option(help="Labels of arms to run, for example 'mnist-*'.")] = "",
    workers: Annotated[int, typer.Option(min=0, max=256, help="Training processes; 0 starts one per core.")] = 0,
    executor: Annotated[
        str, typer.Option(help="Where clients train.", **words("inline", "processes", other="dask=ADDRESS"))
    ] = "processes",
    work: Annotated[
        Path | None, typer.Option(help="Folder of the checkpoints; by default in the user's cache.")
    ] = None,
    dataset: Annotated[str, typer.Option(help="Dataset to use instead of the experiment's own.")] = "",
    clients: Annotated[int, typer.Option(min=0, help="Number of clients; 0: the experiment's own.")] = 0,
    sampled: Annotated[
        float, typer.Option(min=0, max=1, help="Fraction drawn per round; 0: the experiment's own.")
    ] = 0,
    epochs: Annotated[int, typer.Option(min=0, help="Local epochs; 0: the experiment's own.")] = 0,
    train_samples: Annotated[int, typer.Option(min=0, help="Use only this many training samples; 0: all.")] = 0,
    test_samples: Annotated[int, typer.Option(min=0, help="Test on only this many samples; 0: all.")] = 0,
    probe_every: Annotated[int, typer.Option(min=0, help="Rounds between out-of-distribution probes.")] = 0,
    report_only: Annotated[bool, typer.Option("--report-only", help="Only report the runs that exist.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary to stdout.")] = False,
) -> int:
    """Run one of the paper's experiments; started again after a stop it resumes, and it reuses finished runs.

    Example: fedgrove experiment rounds_to_90 --data-dir data --seeds 0,1,2 --workers 2
    """
    from fedgrove.node.simulation.executors import open_executor
    from fedgrove_lab.experiments.base import Overrides
    from fedgrove_lab.experiments.laboratory import ExperimentRequest
    from fedgrove_lab.experiments.registry import EXPERIMENTS

    if name == "list":
        return _list(as_json)
    if name not in EXPERIMENTS:
        raise CommandError(f"there is no experiment {name!r}: choose one of {', '.join(EXPERIMENTS)}")
    chosen = EXPERIMENTS[name]
    request = ExperimentRequest(
        chosen,
        (out or Path("docs/results") / name).absolute(),
        seeds=tuple(read_seeds(seeds)) if seeds else chosen.seeds,
        strategies=_words(arms),
        only=_words(only),
        overrides=Overrides(
            rounds=rounds,
            clients=clients,
            sampled=sampled,
            epochs=epochs,
            dataset=dataset,
            train_samples=train_samples,
            test_samples=test_samples,
            probe_every=probe_every,
        ),
        report_only=report_only,
    )
    try:
        summary = _perform(
            request, work or cache_folder() / "experiments", data_dir, lambda: open_executor(executor, workers), as_json
        )
    except OSError as fault:
        raise CommandError(f"{fault.strerror or fault}: {fault.filename or request.out}") from None
    if as_json:
        print_json(summary)
    return 0


def _perform(
    request: "ExperimentRequest", work: Path, data_dir: Path | None, open_executor: "OpenExecutor", as_json: bool
) -> dict:
    """Run what is missing and write the report."""
    from fedgrove.node.cli.rounds_progress import RoundsDisplay
    from fedgrove_lab.experiments.laboratory import Workshop, conduct
    from fedgrove_lab.experiments.report import write_report
    from fedgrove_lab.experiments.store import RunStore
    from fedgrove_lab.made import add_made, made_now

    request.out.mkdir(parents=True, exist_ok=True)  # rather now than after hours of work
    store = RunStore(request.out)
    todo = request.pending(store)
    if request.experiment.simulates and not request.report_only:
        note(f"{len(todo)} runs left, {sum(plan.rounds for _, plan in todo)} rounds in all")
    if todo or not (request.experiment.simulates or request.report_only):
        add_made(request.out, made_now(sys.argv[1:]))
    with RoundsDisplay(sum(plan.rounds for _, plan in todo)) as display:
        with Workshop(work, data_dir, open_executor, display) as workshop:
            conduct(todo, store, workshop, keep_models=request.experiment.keeps_models)
            findings = request.findings(store, workshop)
            report = request.experiment.report(findings)
        summary = write_report(request.out, request.experiment, report, findings)
    if not as_json:
        answer(report.text)
        answer(f"Written to {request.out}")
    return summary


def _list(as_json: bool) -> int:
    from fedgrove_lab.experiments.registry import EXPERIMENTS

    if as_json:
        print_json({name: {"title": each.title, "paper": each.paper} for name, each in EXPERIMENTS.items()})
        return 0
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("name", "what"):
        table.add_column(heading)
    for name, each in EXPERIMENTS.items():
        table.add_row(name, each.title)
    answer_with(table)
    return 0


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
