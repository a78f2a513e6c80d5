"""``fedgrove kmeans``: federated K-means on a ledger, or the algorithm alone."""

from pathlib import Path
from statistics import mean
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from fedgrove.common.text import command_line
from fedgrove.node.cli.options import JsonFlag
from fedgrove.node.cli.output import answer, answer_with, note, print_json
from fedgrove.node.cli.scenario_options import Asked, takes
from fedgrove.node.cli.values import words
from fedgrove.node.devnet.kmeans import LocalFederation, check_clustering
from fedgrove.node.devnet.points import NAMES, points_of
from fedgrove.node.devnet.run_state import RunState
from fedgrove.node.methods.kmeans.datasets import reference_loss
from fedgrove.node.protocol.step import Kind, Step
from fedgrove.node.scenario.scenario import Scenario

_DIRECTORY = Path("clusters")


@takes(
    *("clients", "dataset", "k", "clusters_each", "points", "iterations", "seed", "store", "data_dir"),
    preset={"kmeans": {}},
    dataset=words(*NAMES, other="FILE"),
)
def kmeans(
    asked: Asked,
    directory: Annotated[Path, typer.Option("--dir", help="The federation's directory, for unlearn.")] = _DIRECTORY,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Compare losses with K-FED and DC-K-means, without ledger and store.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Cluster the clients' points with all sums under masks, and keep the federation so that it can forget.

    A directory that holds a federation resumes where it stopped, if the options are those it was made with.

    Example: fedgrove kmeans --dataset gaussian --points 2000 --clients 5 --k 4 --dir clusters
    """
    if simulate:
        return _simulate(asked.scenario(), as_json)
    if RunState(directory).begun:
        federation = LocalFederation.open(directory)
        asked.check_same(federation.scenario, f"the federation in {directory} was made", "give another --dir")
    else:
        federation = LocalFederation.make(directory.absolute(), asked.scenario())
    return _train(federation, as_json)


def show(role: str, step: Step) -> None:
    """Note one line for each action or absence of a role."""
    if step.acted and (role == "coordinator" or step.kind in (Kind.REQUESTED, Kind.JUDGED)):
        note(f"{role}: {step.acted}")
    elif step.kind is Kind.SITS_OUT:
        note(f"{role} sits out: {step.waiting}")


def _train(federation: LocalFederation, as_json: bool) -> int:
    with federation.awake(show) as session:
        session.register()
        session.run()
        verdict = session.archive()
        state, number = session.state, session.round
    table = {
        "round": number,
        "audit": verdict.verdict,
        "directory": str(federation.root),
        "centres": state.centres.tolist(),
        "counted": state.counts.total,
        "bins": len(state.counts),
        "clients": list(state.clients),
    }
    if as_json:
        print_json(table)
    else:
        counted = f"{state.counts.total:,} points of {len(state.clients)} clients in {len(state.counts)} bins"
        answer(f"round {number}: {len(state.centres)} centres from {counted}; audit: {verdict.word}")
        answer(f"check:   {command_line('audit', federation.root / 'history')}")
        forget = command_line("unlearn", "--dir", federation.root, "--client", 1, "--points", "0,1")
        answer(f"forget:  {forget}")
    return verdict.exit_code


def _simulate(scenario: Scenario, as_json: bool) -> int:
    from fedgrove.node.methods.kmeans.grid import BinGrid
    from fedgrove.node.simulation.kmeans.baselines import DCKMeans, k_fed, simplified
    from fedgrove.node.simulation.kmeans.federation import Federation, SimulationSettings

    iterations, seed = check_clustering(scenario).iterations, scenario.federation.seed
    points = points_of(scenario)
    grid = BinGrid.covering(points.parts[0].shape[1], points.step)
    settings = SimulationSettings(points.k, grid, iterations=iterations)
    running = Federation(points.parts, settings, np.random.default_rng(seed))
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
