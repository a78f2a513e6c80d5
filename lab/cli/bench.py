"""``fedgrove bench``: figures that anyone can repeat, compared with a rival or a physical limit of the same run."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer
from rich.table import Table

from fedgrove.node.cli.output import CommandError, answer_with, print_json, progress_bar, read_seeds
from fedgrove.node.cli.values import words
from fedgrove_lab.bench.rows import BenchResult, BenchRow

Item = TypeVar("Item")

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Measure fedgrove on this machine.\n\nExample: fedgrove bench masking",
)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print to stdout as JSON.")]


@app.command("vrf")
def vrf(as_json: JsonFlag = False) -> int:
    """Proofs: time in Python and gas on chain, compared with known verifiers.

    Example: fedgrove bench vrf
    """
    from fedgrove_lab.bench.vrf import run

    return _show("VRF", run, as_json)


@app.command("chain")
def chain(
    clients: Annotated[int, typer.Option(min=1, max=1000, help="Clients in the round.")] = 1000,
    as_json: JsonFlag = False,
) -> int:
    """Gas per transaction of a round on the embedded chain, compared with the goals.

    Example: fedgrove bench chain --clients 100
    """
    from fedgrove_lab.bench.chain import run

    return _show("Ledger", lambda: run(clients, _tracked), as_json)


@app.command("masking")
def masking(
    parameters: Annotated[int, typer.Option(min=1000, max=100_000_000, help="Parameters of the model.")] = 1_600_000,
    as_json: JsonFlag = False,
) -> int:
    """Masking and unmasking time, compared with raw AES-CTR (and Flower's SecAgg+, see FEDGROVE_FLOWER_PYTHON).

    Example: fedgrove bench masking
    """
    from fedgrove_lab.bench.masking import run

    return _show("Masking", lambda: run(parameters), as_json)


@app.command("privacy")
def privacy(
    parameters: Annotated[int, typer.Option(min=1000, max=100_000_000, help="Parameters of the model.")] = 1_600_000,
    as_json: JsonFlag = False,
) -> int:
    """Cost of client-level privacy to a client (clipping, rounding, noise), compared with its masks.

    Example: fedgrove bench privacy
    """
    from fedgrove_lab.bench.privacy import run

    return _show("Privacy", lambda: run(parameters), as_json)


@app.command("ipfs")
def ipfs(as_json: JsonFlag = False) -> int:
    """Content identifiers and the disk store, compared with raw SHA-256 of the same bytes.

    Example: fedgrove bench ipfs
    """
    from fedgrove_lab.bench.ipfs import run

    return _show("Store", run, as_json)


@app.command("dropouts")
def dropouts(
    clients: Annotated[int, typer.Option(min=5, max=1000, help="Clients of the federation.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Rounds of each run.")] = 3,
    drop: Annotated[float, typer.Option(help="Fraction of clients that fall silent in each round.")] = 0.2,
    as_json: JsonFlag = False,
) -> int:
    """Seconds per round with clients that drop out, compared with the same federation without dropouts.

    Example: fedgrove bench dropouts --clients 10 --drop 0.2
    """
    from fedgrove_lab.bench.dropouts import run

    if not 0 < drop < 1:
        raise CommandError(f"--drop must be above 0 and below 1, not {drop}")
    return _show("Dropouts", lambda: run(clients, rounds, drop), as_json)


@app.command("engine")
def engine(
    data_dir: Annotated[Path | None, typer.Option(help="Folder of MNIST; it is downloaded if missing.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Rounds of each run that count.")] = 3,
    workers: Annotated[int, typer.Option(min=0, max=256, help="Processes; 0 starts one per core.")] = 0,
    tiny: Annotated[bool, typer.Option("--tiny", help="Only 10,000 clients with a small network; no data.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Seconds per simulated round, compared with its floor, a plain loop and Flower (FEDGROVE_FLOWER_PYTHON names it).

    Example: fedgrove bench engine --data-dir data --rounds 3
    """
    from fedgrove.node.learning.datasets import load_dataset
    from fedgrove_lab.bench.engine import run, run_tiny

    processes = workers or len(os.sched_getaffinity(0))
    if tiny:
        return _show("Engine", lambda: run_tiny(rounds, processes), as_json)
    data = load_dataset("mnist", data_dir)
    return _show("Engine", lambda: run(data, rounds, processes), as_json)


@app.command("unlearn")
def unlearn(
    dataset: Annotated[str, typer.Option(help="The points.", **words("gaussian", "celltype", "covtype"))] = "gaussian",
    data_dir: Annotated[Path, typer.Option(help="Folder that holds the files of celltype and covtype.")] = Path("data"),
    clusters_each: Annotated[int, typer.Option(min=1, help="Clusters that a client sees, K′.")] = 1,
    removals: Annotated[int, typer.Option(min=1, help="Requests of each kind.")] = 100,
    order: Annotated[
        str,
        typer.Option(
            help="Kind of requests.", **words("random", "adversarial", "batches-of-10", "batches-of-30", "all")
        ),
    ] = "random",
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Runs behind a loss ratio.")] = 5,
    large: Annotated[bool, typer.Option("--large", help="Also decode 10,000 occupied bins.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write the figures, a picture of accumulated times, and a page of all here.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Federated K-means that forgets: losses, removals compared with retraining, bytes, decoding.

    Example: fedgrove bench unlearn --dataset gaussian --removals 100

    Example: fedgrove bench unlearn --dataset celltype --data-dir data --order all --large --out runs/unlearning
    """
    from fedgrove_lab.bench.removals import ORDERS
    from fedgrove_lab.bench.unlearn import load, run
    from fedgrove_lab.bench.unlearn_report import write_report
    from fedgrove_lab.made import made_now

    if order not in (*ORDERS, "all"):
        raise CommandError(f"--order must be {', '.join(ORDERS)} or all, not {order!r}")
    orders = list(ORDERS.values()) if order == "all" else [ORDERS[order]]
    points = load(dataset, data_dir, clusters_each)
    decoding = (1_000, 10_000) if large else (1_000,)

    def measure() -> BenchResult:
        result, courses = run(points, orders, removals, repeats, decoding)
        if out is not None:
            write_report(out, result, courses, made_now(sys.argv[1:]))
        return result

    return _show("Unlearning", measure, as_json)


@app.command("unlearn-losses")
def unlearn_losses(
    figure: Annotated[
        str, typer.Option(help="Which figure.", **words("preparation", "k-prime", "removals", "step", "all"))
    ] = "all",
    dataset: Annotated[
        str, typer.Option(help="The points.", **words("gaussian", "celltype", "covtype", "all"))
    ] = "all",
    seeds: Annotated[str, typer.Option(help="Seeds of splits, algorithms and requests.")] = "0,1,2,3,4",
    data_dir: Annotated[Path, typer.Option(help="Folder that holds the files of celltype and covtype.")] = Path("data"),
    out: Annotated[Path, typer.Option(help="Folder for the results; a second call resumes.")] = Path(
        "docs/results/unlearning_losses"
    ),
    as_json: JsonFlag = False,
) -> int:
    """Losses of federated K-means over clusters per client, width of a bin and removals, as the paper's figures.

    Example: fedgrove bench unlearn-losses --figure step --dataset gaussian --seeds 0 --out runs/losses
    """
    from fedgrove_lab.bench.unlearn_losses import FIGURES, arms, run
    from fedgrove_lab.bench.unlearn_losses_report import write_report
    from fedgrove_lab.kmeans.trials import CLUSTERS
    from fedgrove_lab.made import made_now

    figures = _of_them("--figure", figure, FIGURES)
    asked = arms(figures, _of_them("--dataset", dataset, tuple(CLUSTERS)))
    result = run(asked, read_seeds(seeds), data_dir, out, made_now(sys.argv[1:]), _tracked)
    write_report(out)
    return _show("Losses", lambda: result, as_json)


def _of_them(option: str, asked: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The name that an option gives, or all."""
    if asked not in (*names, "all"):
        raise CommandError(f"{option} must be {', '.join(names)} or all, not {asked!r}")
    return names if asked == "all" else (asked,)


@app.command("similarity")
def similarity(
    clients: Annotated[int, typer.Option(min=2, max=5000, help="Number of clients that share the data.")] = 100,
    psi: Annotated[str, typer.Option(help="The private comparison.", **words("ecdh", "rsa", "both"))] = "both",
    dataset: Annotated[str, typer.Option(help="Data set whose training labels are partitioned.")] = "mnist",
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the data set; it is downloaded if missing.")] = None,
    workers: Annotated[int, typer.Option(min=0, max=256, help="Processes; 0 starts one per core.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Keep comparisons here; a second call resumes.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Private comparisons of all pairs of clients, compared with the arithmetic that they cannot avoid.

    Example: fedgrove bench similarity --data-dir data --psi ecdh
    """
    from fedgrove.node.cli.rounds_progress import RoundsDisplay
    from fedgrove.node.learning.datasets import load_dataset
    from fedgrove_lab.bench.similarity import run

    choices: dict[str, tuple[Literal["ecdh", "rsa"], ...]] = {
        "ecdh": ("ecdh",),
        "rsa": ("rsa",),
        "both": ("ecdh", "rsa"),
    }
    if psi not in choices:
        raise CommandError(f"--psi must be ecdh, rsa or both, not {psi!r}")
    protocols = choices[psi]
    labels = load_dataset(dataset, data_dir).train().y
    with RoundsDisplay(0) as display:

        def progress(name: str, done: int, total: int) -> None:
            display.begin(name, 0)
            display.compared(done, total)

        return _show("Similarity", lambda: run(labels, clients, protocols, workers, out, progress), as_json)


@app.command("explorer")
def explorer(
    rounds: Annotated[int, typer.Option(min=1, max=10_000, help="Rounds of the history.")] = 200,
    clients: Annotated[int, typer.Option(min=3, max=10_000, help="Clients in each.")] = 100,
    browser: Annotated[bool, typer.Option("--browser", help="Also load the overview in Chromium.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """CPU seconds of the explorer's pages over a long history, and seconds in a browser; the goal is one second.

    Example: fedgrove bench explorer --rounds 200 --clients 100 --browser
    """
    from fedgrove.node.cli.extras import require

    require("explorer", "the explorer")
    from fedgrove_lab.bench.explorer import find_chromium, run

    found = find_chromium() if browser else None
    if browser and (found is None or importlib.util.find_spec("playwright") is None):
        raise CommandError("--browser needs Chromium, on the PATH or named by FEDGROVE_CHROMIUM, and pip's playwright")
    return _show("Explorer", lambda: run(rounds, clients, found), as_json)


def _tracked(members: Iterable[Item], what: str) -> Iterable[Item]:
    """Show a bar while something is done for each member."""
    with progress_bar() as bar:
        yield from bar.track(members, description=what)


def _show(title: str, work: Callable[[], BenchResult], as_json: bool) -> int:
    result = work()
    if as_json:
        print_json(result.to_json())
        return 0
    table = Table(title=title)
    for heading in ("what", "measured", "unit", "note"):
        table.add_column(heading, justify="right" if heading == "measured" else "left")
    for row in result.rows:
        table.add_row(row.name, _figure(row.value), row.unit or "", _note(row))
    answer_with(table)
    return 0


def _figure(value: float | str) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if isinstance(value, float) else value


def _note(row: BenchRow) -> str:
    """The rival or limit of a row, and how the figure compares."""
    if row.limit is None:
        return row.note or ""
    return f"{_figure(row.limit)} {row.unit or ''} {row.limit_name} (ratio {row.ratio})"
