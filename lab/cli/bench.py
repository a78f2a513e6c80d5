"""``fedgrove bench``: figures that anyone can repeat, compared with a rival or a physical limit of the same run."""

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table

from fedgrove.node.cli.output import CommandError, answer_with, print_json, progress_bar, read_seeds
from fedgrove.node.cli.values import words
from fedgrove_lab.bench.rows import BenchResult, BenchRow

Item = TypeVar("Item")
Name = TypeVar("Name", bound=str)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Measure fedgrove on this machine.\n\nExample: fedgrove bench masking",
)

Parameters = Annotated[int, typer.Option(min=1000, max=100_000_000, help="Parameters of the model.")]
Workers = Annotated[int, typer.Option(min=0, max=256, help="Processes; 0 starts one per core.")]
PointsDir = Annotated[Path, typer.Option(help="Folder that holds the files of celltype and covtype.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print to stdout as JSON.")]


def benchmark(title: str) -> Callable[[Callable[..., BenchResult]], Callable[..., BenchResult]]:
    """Make a command of what measures, which prints the result under this title, or as JSON."""

    def register(measure: Callable[..., BenchResult]) -> Callable[..., BenchResult]:
        @wraps(measure)
        def command(as_json: bool, **given: Any) -> None:
            _show(title, measure(**given), as_json)

        flag = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JsonFlag)
        own = inspect.signature(measure, eval_str=True).parameters.values()
        every = [*(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own), flag]
        command.__signature__ = inspect.Signature(every)  # pyright: ignore[reportAttributeAccessIssue] (typer reads it)
        command.__annotations__ = {each.name: each.annotation for each in every}
        app.command(measure.__name__.replace("_", "-"))(command)
        return measure

    return register


@benchmark("VRF")
def vrf() -> BenchResult:
    """Proofs: time in Python and gas on chain, compared with known verifiers.

    Example: fedgrove bench vrf
    """
    from fedgrove_lab.bench.vrf import run

    return run()


@benchmark("Ledger")
def chain(
    clients: Annotated[int, typer.Option(min=1, max=1000, help="Clients in the round.")] = 1000,
) -> BenchResult:
    """Gas per transaction of a round on the embedded chain, compared with the goals.

    Example: fedgrove bench chain --clients 100
    """
    from fedgrove_lab.bench.chain import run

    return run(clients, _tracked)


@benchmark("Masking")
def masking(parameters: Parameters = 1_600_000) -> BenchResult:
    """Masking and unmasking time, compared with raw AES-CTR (and Flower's SecAgg+, see FEDGROVE_FLOWER_PYTHON).

    Example: fedgrove bench masking
    """
    from fedgrove_lab.bench.masking import run

    return run(parameters)


@benchmark("Bounds")
def bounds(
    parameters: Annotated[
        int, typer.Option(min=0, max=100_000_000, help="Parameters of the model; 0 takes 10,000 and 1,660,000.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the figures and a page of them here.")] = None,
) -> BenchResult:
    """Proofs of bounds on hidden updates: client, verification and check of a sum, compared with the masks.

    Example: fedgrove bench bounds --parameters 10000
    """
    from fedgrove_lab.bench.bounds import PARAMETERS, run
    from fedgrove_lab.bench.bounds_report import write_report
    from fedgrove_lab.made import made_now

    made = made_now(sys.argv[1:])
    result = run((parameters,) if parameters else PARAMETERS, track=_tracked)
    if out is not None:
        write_report(out, result, made)
    return result


@benchmark("Privacy")
def privacy(parameters: Parameters = 1_600_000) -> BenchResult:
    """Cost of client-level privacy to a client (clipping, rounding, noise), compared with its masks.

    Example: fedgrove bench privacy
    """
    from fedgrove_lab.bench.privacy import run

    return run(parameters)


@benchmark("Store")
def ipfs() -> BenchResult:
    """Content identifiers and the disk store, compared with raw SHA-256 of the same bytes.

    Example: fedgrove bench ipfs
    """
    from fedgrove_lab.bench.ipfs import run

    return run()


@benchmark("Dropouts")
def dropouts(
    clients: Annotated[int, typer.Option(min=5, max=1000, help="Clients of the federation.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Rounds of each run.")] = 3,
    drop: Annotated[float, typer.Option(help="Fraction of clients that fall silent in each round.")] = 0.2,
) -> BenchResult:
    """Seconds per round with clients that drop out, compared with the same federation without dropouts.

    Example: fedgrove bench dropouts --clients 10 --drop 0.2
    """
    from fedgrove_lab.bench.dropouts import run

    if not 0 < drop < 1:
        raise CommandError(f"--drop must be above 0 and below 1, not {drop}")
    return run(clients, rounds, drop)


@benchmark("Engine")
def engine(
    data_dir: Annotated[Path | None, typer.Option(help="Folder of MNIST; it is downloaded if missing.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Rounds of each run that count.")] = 3,
    workers: Workers = 0,
    tiny: Annotated[bool, typer.Option("--tiny", help="Only 10,000 clients with a small network; no data.")] = False,
) -> BenchResult:
    """Seconds per simulated round, compared with its floor, a plain loop and Flower (FEDGROVE_FLOWER_PYTHON names it).

    Example: fedgrove bench engine --data-dir data --rounds 3
    """
    from fedgrove.node.learning.datasets import load_dataset
    from fedgrove_lab.bench.engine import run, run_tiny

    processes = workers or len(os.sched_getaffinity(0))
    if tiny:
        return run_tiny(rounds, processes)
    data = load_dataset("mnist", data_dir)
    return run(data, rounds, processes)


@benchmark("Unlearning")
def unlearn(
    dataset: Annotated[str, typer.Option(help="The points.", **words("gaussian", "celltype", "covtype"))] = "gaussian",
    data_dir: PointsDir = Path("data"),
    clusters_each: Annotated[int, typer.Option(min=1, help="Clusters that a client sees, K′.")] = 1,
    removals: Annotated[int, typer.Option(min=1, help="Requests of each kind.")] = 100,
    order: Annotated[
        str,
        typer.Option(
            help="Kind of requests.", **words("random", "adversarial", "batches-of-10", "batches-of-30", "all")
        ),
    ] = "random",
    large: Annotated[bool, typer.Option("--large", help="Also decode 10,000 occupied bins.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write the figures, a picture of accumulated times, and a page of all here.")
    ] = None,
) -> BenchResult:
    """Federated K-means that forgets: removals compared with retraining, bytes, decoding.

    Example: fedgrove bench unlearn --dataset gaussian --removals 100

    Example: fedgrove bench unlearn --dataset celltype --data-dir data --order all --large --out runs/unlearning
    """
    from fedgrove_lab.bench.unlearn import ORDERS, load, run
    from fedgrove_lab.bench.unlearn_report import write_report
    from fedgrove_lab.made import made_now

    orders = [ORDERS[name] for name in _chosen("--order", order, tuple(ORDERS))]
    points = load(dataset, data_dir, clusters_each)
    decoding = (1_000, 10_000) if large else (1_000,)
    result, courses = run(points, orders, removals, decoding)
    if out is not None:
        write_report(out, result, courses, made_now(sys.argv[1:]))
    return result


@benchmark("Losses")
def unlearn_losses(
    figure: Annotated[
        str, typer.Option(help="Which figure.", **words("preparation", "k-prime", "removals", "step", "all"))
    ] = "all",
    dataset: Annotated[
        str, typer.Option(help="The points.", **words("gaussian", "celltype", "covtype", "all"))
    ] = "all",
    seeds: Annotated[str, typer.Option(help="Seeds of splits, algorithms and requests.")] = "0,1,2,3,4",
    data_dir: PointsDir = Path("data"),
    out: Annotated[Path, typer.Option(help="Folder for the results; a second call resumes.")] = Path(
        "docs/results/unlearning_losses"
    ),
) -> BenchResult:
    """Losses of federated K-means over clusters per client, width of a bin and removals, as the paper's figures.

    Example: fedgrove bench unlearn-losses --figure step --dataset gaussian --seeds 0 --out runs/losses
    """
    from fedgrove_lab.bench.unlearn_losses import FIGURES, arms, run
    from fedgrove_lab.bench.unlearn_losses_report import write_report
    from fedgrove_lab.kmeans.trials import CLUSTERS
    from fedgrove_lab.made import made_now

    figures = _chosen("--figure", figure, FIGURES)
    asked = arms(figures, _chosen("--dataset", dataset, tuple(CLUSTERS)))
    result = run(asked, read_seeds(seeds), data_dir, out, made_now(sys.argv[1:]), _tracked)
    write_report(out)
    return result


@benchmark("Similarity")
def similarity(
    clients: Annotated[int, typer.Option(min=2, max=5000, help="Number of clients that share the data.")] = 100,
    psi: Annotated[str, typer.Option(help="The private comparison.", **words("ecdh", "rsa", "both"))] = "both",
    dataset: Annotated[str, typer.Option(help="Data set whose training labels are partitioned.")] = "mnist",
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the data set; it is downloaded if missing.")] = None,
    workers: Workers = 0,
    out: Annotated[Path | None, typer.Option(help="Keep comparisons here; a second call resumes.")] = None,
) -> BenchResult:
    """Private comparisons of all pairs of clients, compared with the arithmetic that they cannot avoid.

    Example: fedgrove bench similarity --data-dir data --psi ecdh
    """
    from fedgrove.node.cli.rounds_progress import RoundsDisplay
    from fedgrove.node.learning.datasets import load_dataset
    from fedgrove_lab.bench.similarity import PROTOCOLS, Psi, run

    protocols: tuple[Psi, ...] = _chosen("--psi", psi, PROTOCOLS, every="both")
    labels = load_dataset(dataset, data_dir).train().y
    with RoundsDisplay(0) as display:

        def progress(name: str, done: int, total: int) -> None:
            display.begin(name, 0)
            display.compared(done, total)

        return run(labels, clients, protocols, workers, out, progress)


@benchmark("Explorer")
def explorer(
    rounds: Annotated[int, typer.Option(min=1, max=10_000, help="Rounds of the history.")] = 200,
    clients: Annotated[int, typer.Option(min=3, max=10_000, help="Clients in each.")] = 100,
    browser: Annotated[bool, typer.Option("--browser", help="Also load the overview in Chromium.")] = False,
) -> BenchResult:
    """CPU seconds of the explorer's pages over a long history, and seconds in a browser; the goal is one second.

    Example: fedgrove bench explorer --rounds 200 --clients 100 --browser
    """
    from fedgrove.node.cli.extras import require

    require("explorer", "the explorer")
    from fedgrove_lab.bench.explorer import find_chromium, run

    found = find_chromium() if browser else None
    if browser and (found is None or importlib.util.find_spec("playwright") is None):
        raise CommandError("--browser needs Chromium, on the PATH or named by FEDGROVE_CHROMIUM, and pip's playwright")
    return run(rounds, clients, found)


def _chosen(option: str, asked: str, names: tuple[Name, ...], every: str = "all") -> tuple[Name, ...]:
    """The name that an option gives, or all."""
    if asked not in (*names, every):
        raise CommandError(f"{option} must be {', '.join(names)} or {every}, not {asked!r}")
    return tuple(name for name in names if asked in (name, every))


def _tracked(members: Iterable[Item], what: str) -> Iterable[Item]:
    """Show a bar while something is done for each member."""
    with progress_bar() as bar:
        yield from bar.track(members, description=what)


def _show(title: str, result: BenchResult, as_json: bool) -> None:
    if as_json:
        print_json(result.to_json())
        return
    table = Table(title=title)
    for heading in ("what", "measured", "unit", "note"):
        table.add_column(heading, justify="right" if heading == "measured" else "left")
    for row in result.rows:
        table.add_row(row.name, _figure(row.value), row.unit or "", _note(row))
    answer_with(table)


def _figure(value: float | str) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if isinstance(value, float) else value


def _note(row: BenchRow) -> str:
    """The rival or limit of a row, and how the figure compares."""
    if row.limit is None:
        return row.note or ""
    return f"{_figure(row.limit)} {row.unit or ''} {row.limit_name} (ratio {row.ratio})"
