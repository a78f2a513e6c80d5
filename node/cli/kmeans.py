"""``fedgrove kmeans``: federated K-means on a ledger, or the algorithm alone."""

from pathlib import Path
from statistics import mean
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from fedgrove.common.text import command_line
from fedgrove.node.cli.given import given
from fedgrove.node.cli.output import CommandError, answer, answer_with, note, print_json
from fedgrove.node.cli.points import NAMES, points_by_name
from fedgrove.node.cli.values import words
from fedgrove.node.devnet.kmeans import STORES, LocalFederation
from fedgrove.node.methods.kmeans.datasets import Points, reference_loss
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.protocol.step import Kind, Step

_DIRECTORY = Path("clusters")


def kmeans(
    context: typer.Context,
    data: Annotated[
        str, typer.Option(help="FILE is a .npz file with the array points.", **words(*NAMES, other="FILE"))
    ] = "gaussian",
    data_dir: Annotated[Path, typer.Option(help="Folder that holds celltype/ and covtype/.")] = Path("data"),
    clients: Annotated[int, typer.Option(min=3, max=1000, help="Number of clients that share the points.")] = 8,
    k: Annotated[int, typer.Option(min=0, max=1000, help="Clusters; 0: the number known for the dataset.")] = 0,
    clusters_each: Annotated[
        int, typer.Option(min=0, max=1000, help="Clusters of the central solution per client; 0: all.")
    ] = 0,
    points: Annotated[int, typer.Option(min=0, help="Use only this many points, sampled with the seed; 0: all.")] = 0,
    iterations: Annotated[
        int,
        typer.Option(
            min=0, max=1000, help=("Lloyd iterations at each client; 0: its centroids are some of its points.")
        ),
    ] = 0,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the partition; the clients' randomness does not depend on it.")
    ] = 0,
    store: Annotated[
        str,
        typer.Option(
            help="The store; kubo: a node of its own, kept in --dir; URL: a Kubo API.",
            **words("disk", "kubo", other="URL"),
        ),
    ] = "disk",
    directory: Annotated[Path, typer.Option("--dir", help="The federation's directory, for unlearn.")] = _DIRECTORY,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Compare losses with K-FED and DC-K-means, without ledger and store.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result to stdout.")] = False,
) -> int:
    """Cluster the clients' points with all sums under masks, and keep the federation so that it can forget.

    A directory that holds a federation resumes where it stopped, if the options are those it was made with.

    Example: fedgrove kmeans --data gaussian --points 2000 --clients 5 --k 4 --dir clusters
    """
    if store not in STORES and not store.startswith(("http://", "https://")):
        raise CommandError(f"--store must be disk, kubo or the URL of a Kubo API, not {store!r}")
    if not simulate and (directory / "federation.json").exists():
        federation = LocalFederation.open(directory)
        options = {"data": Path(data).stem, "clients": clients, "iterations": iterations, "store": store}
        _check_same(context, federation, options | ({"k": k} if k else {}))
    else:
        dealt_points = points_by_name(data, data_dir, clients, k, clusters_each, points, seed)
        if simulate:
            return _simulate(dealt_points, iterations, seed, as_json)
        settings = KMeansTerms(
            k=dealt_points.k,
            dimensions=dealt_points.parts[0].shape[1],
            step=dealt_points.step,
            iterations=iterations,
        )
        federation = LocalFederation.make(directory.absolute(), dealt_points.name, dealt_points.parts, settings, store)
    return _train(federation, as_json)


def _check_same(context: typer.Context, federation: LocalFederation, options: dict[str, int | str]) -> None:
    """Refuse options that differ from what the federation was made with."""
    terms = federation.config.method
    assert isinstance(terms, KMeansTerms)
    made = {"data": federation.config.federation.name, "clients": federation.clients, "store": federation.store}
    made |= {"k": terms.k, "iterations": terms.iterations}
    for name, value in options.items():
        if given(context, name) and value != made[name]:
            raise CommandError(
                f"the federation in {federation.root} was made with --{name} {made[name]}: give another --dir"
            )


def show(role: str, step: Step) -> None:
    """Note one line for each action or absence of a role."""
    if step.acted and (role == "coordinator" or step.kind in (Kind.REQUESTED, Kind.DISPUTED)):
        note(f"{role}: {step.acted}")
    elif step.kind is Kind.SITS_OUT:
        note(f"{role} sits out: {step.waiting}")


def describe(state: KMeansState) -> dict:
    """Summary of a state, JSON-ready."""
    return {
        "centres": state.centres.tolist(),
        "counted": state.counts.total,
        "bins": len(state.counts),
        "clients": list(state.clients),
    }


def _train(federation: LocalFederation, as_json: bool) -> int:
    with federation.awake(show) as session:
        session.register()
        session.run()
        verdict = session.archive()
        state, number = session.state, session.round
    table = {"round": number, "audit": verdict.verdict, "directory": str(federation.root), **describe(state)}
    if as_json:
        print_json(table)
    else:
        counted = f"{state.counts.total:,} points of {len(state.clients)} clients in {len(state.counts)} bins"
        answer(f"round {number}: {len(state.centres)} centres from {counted}; audit: {verdict.verdict}")
        answer(f"check:   {command_line('audit', federation.root / 'history')}")
        forget = command_line("unlearn", "--dir", federation.root, "--client", 1, "--points", "0,1")
        answer(f"forget:  {forget}")
    return verdict.exit_code


def _simulate(points: Points, iterations: int, seed: int, as_json: bool) -> int:
    from fedgrove.node.methods.kmeans.grid import BinGrid
    from fedgrove.node.simulation.kmeans.baselines import DCKMeans, k_fed, simplified
    from fedgrove.node.simulation.kmeans.federation import Federation, SimulationSettings

    grid = BinGrid.covering(points.parts[0].shape[1], points.step)
    running = Federation(
        points.parts, SimulationSettings(points.k, grid, iterations=iterations), np.random.default_rng(seed)
    )
    trained = running.train()
    best = reference_loss(points.points, points.k, seed, restarts=10)
    rivals = {
        "MUFC without privacy": simplified(points.parts, points.k, np.random.default_rng(seed)),
        "K-FED": k_fed(points.parts, points.k, np.random.default_rng(seed)),
        "DC-K-means": DCKMeans(points.parts, points.k, np.random.default_rng(seed)).result(),
    }
    ratios = {"MUFC": running.induced_loss() / best}
    ratios |= {name: rival.induced_loss(points.parts) / best for name, rival in rivals.items()}
    table = {
        "centres": trained.model.centres.tolist(),
        "central_loss": best,
        "loss_ratios": ratios,
        "upload_bytes": trained.upload_bytes,
        "mean_points": mean(map(len, points.parts)),
    }
    if as_json:
        print_json(table)
        return 0
    shown = Table("method", "induced loss / central K-means")
    for name, ratio in ratios.items():
        shown.add_row(name, f"{ratio:.3f}")
    answer_with(shown)
    answer(f"{points.name}, {points.split}; an upload has {trained.upload_bytes:,} bytes")
    return 0
