"""Federated K-means that forgets: losses compared with K-FED and DC-K-means, removals with retraining, decoding, bytes.

The paper's figures (section 6) are given next to them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from threadpoolctl import threadpool_limits

from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.methods.kmeans.code import Code
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.datasets import Points, celltype, covtype, gaussian, reference_loss
from fedgrove.node.methods.kmeans.decoder import decode
from fedgrove.node.methods.kmeans.grid import BinGrid
from fedgrove.node.simulation.kmeans.baselines import DCKMeans, k_fed, simplified
from fedgrove.node.simulation.kmeans.federation import Federation
from fedgrove_lab.bench.removals import RemovalRun, Removals, rows_of, run_removals, seconds_of, settings
from fedgrove_lab.bench.rows import BenchResult, BenchRow

LOSS_RATIOS = {  # tables 1 and 2: MUFC, MUFC with full clustering at clients, K-FED, DC-KM
    "celltype": (1.14, 1.03, 1.72, 1.46),
    "covtype": (1.03, 1.02, 1.60, 1.03),
    "gaussian": (1.25, 1.02, 1.25, 1.02),
}
DECODING_GOALS = {1_000: 0.6, 10_000: 10.0}

_FULL = 300
_KEY = b"fedgrove bench unlearn"


def load(name: str, directory: Path, clusters_each: int) -> Points:
    """A data set by name.

    Raises
    ------
    DatasetError
        There is none of this name, or its file cannot be used.
    """
    match name:
        case "gaussian":
            return gaussian(clusters_each=clusters_each)
        case "celltype":
            return celltype(directory)
        case "covtype":
            return covtype(directory, clusters_each=clusters_each)
    raise DatasetError(f"unknown dataset {name!r}: choose gaussian, celltype or covtype")


def run(
    points: Points,
    orders: Sequence[Removals],
    count: int = 100,
    repeats: int = 5,
    decoding: tuple[int, ...] = (1_000,),
) -> tuple[BenchResult, list[RemovalRun]]:
    """Measure.

    Parameters
    ----------
    orders : sequence of Removals
        Kinds of requests, each of a federation of its own.
    count : int
        Requests of each kind.
    repeats : int
        Runs of each method for its loss ratio.
    decoding : tuple of int
        Numbers of occupied bins, K·L, whose sum is decoded.

    Returns
    -------
    BenchResult
        Rows on removals are named by their kind first.
    list of RemovalRun
        One for each kind.
    """
    with threadpool_limits(1):  # processor time is that of one core
        runs = [run_removals(points, removals, count) for removals in orders]
        rows = list(_loss_rows(points, repeats))
        for each in runs:
            rows += rows_of(points.name, each)
        rows += _byte_rows(points)
        rows += [_decoding_row(bins) for bins in decoding]
    kinds = [removals.text for removals in orders]
    return BenchResult(tuple(rows), {"dataset": points.name, "split": points.split, "kinds": kinds}), runs


# --- losses -----------------------------------------------------------------------------------------------------------


def _loss_rows(points: Points, repeats: int) -> Iterator[BenchRow]:
    reference = reference_loss(points.points, points.k)
    ours, full, theirs, divided = LOSS_RATIOS.get(points.name, (None,) * 4)

    def federation(seed: int, iterations: int) -> Federation:
        running = Federation(points.parts, settings(points, iterations), np.random.default_rng(seed))
        running.train()
        return running

    yield BenchRow("loss of central K-means", reference, "", points.split)
    for name, iterations, paper in (("MUFC", 0, ours), ("MUFC, full clustering at clients", _FULL, full)):
        trained = [federation(seed, iterations) for seed in range(repeats)]
        yield _ratio_row(f"induced loss ratio: {name}", [one.induced_loss() / reference for one in trained], paper)
        yield _ratio_row(f"nearest-centre loss ratio: {name}", [one.nearest_loss() / reference for one in trained])
    baselines: dict[str, tuple[Callable, float | None]] = {
        "MUFC without privacy": (lambda rng: simplified(points.parts, points.k, rng), None),
        "K-FED": (lambda rng: k_fed(points.parts, points.k, rng), theirs),
        "DC-KM": (lambda rng: DCKMeans(points.parts, points.k, rng).result(), divided),
    }
    for name, (method, paper) in baselines.items():
        results = [method(np.random.default_rng(seed)) for seed in range(repeats)]
        ratios = [result.induced_loss(points.parts) / reference for result in results]
        yield _ratio_row(f"induced loss ratio: {name}", ratios, paper)


def _ratio_row(name: str, ratios: list[float], paper: float | None = None) -> BenchRow:
    spread = stdev(ratios) if len(ratios) > 1 else 0.0
    note = f"± {spread:.3f}" + (f", paper {paper}" if paper else "")
    return BenchRow(name, round(mean(ratios), 4), f"mean of {len(ratios)}", note)


# --- decoding and bytes -----------------------------------------------------------------------------------------------


def _decoding_row(bins: int) -> BenchRow:
    """Decode a sum that occupies all the bins of its capacity."""
    rng = np.random.default_rng(0)
    grid = BinGrid(5, 0.01, 50)
    total = BinCounts.of(rng.integers(-50, 51, (bins, 5)), rng.integers(1, 500, bins))
    code = Code(grid, len(total), total.total)
    sums = code.encode(total)
    found: list[BinCounts] = []
    seconds = seconds_of(lambda: found.append(decode(code, sums)))
    if found != [total]:
        raise AssertionError("the decoded sum is not the sum")
    goal = DECODING_GOALS.get(bins)
    note = f"goal {goal} s: {'met' if seconds < goal else 'missed'}" if goal else ""
    return BenchRow(f"decoding, {bins:,} occupied bins", round(seconds, 6), "s", note)


def _byte_rows(points: Points) -> Iterator[BenchRow]:
    grid, clients, n = settings(points).grid, len(points.parts), sum(map(len, points.parts))
    key = _KEY if grid.piece_count > 1 else b""
    training = Code(grid, points.k * clients, n, key)
    removal = Code(grid, 2 * points.k, 2 * n, key, signed=True)
    bits = grid.dimensions * math.log2(grid.radix)
    sparse = math.ceil(points.k * (bits + math.log2(n)) / 8)
    yield _byte_row("upload of a client: training", training.upload_bytes, f"dense: 2^{bits + 3:.0f} bytes")
    yield _byte_row("upload of a client: removal", removal.upload_bytes, "differences; on a ledger as for training")
    yield _byte_row("its bins and counts in the clear", sparse, "what a server that may see them would be sent")


def _byte_row(name: str, count: int, note: str) -> BenchRow:
    return BenchRow(name, count, "bytes", note)
