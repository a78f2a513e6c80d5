"""Federated K-means that forgets: removals compared with DC-K-means' and with retraining, decoding, bytes.

The paper's figures (section 6) are given next to them.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.methods.kmeans.code import Code
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.datasets import Points, celltype, covtype, gaussian
from fedgrove.node.methods.kmeans.decoder import decode
from fedgrove.node.methods.kmeans.grid import BinGrid
from fedgrove_lab.bench.removals import RemovalRun, Removals, rows_of, run_removals, seconds_of, settings
from fedgrove_lab.bench.rows import BenchResult, BenchRow

DECODING_GOALS = {1_000: 0.6, 10_000: 10.0}

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
    decoding: tuple[int, ...] = (1_000,),
) -> tuple[BenchResult, list[RemovalRun]]:
    """Make ``count`` requests of each kind, each of a federation of its own; ``decoding`` has numbers of bins, K·L.

    Rows on removals are named by their kind first; the runs of each kind are returned next to them.
    """
    with threadpool_limits(1):  # processor time is that of one core
        runs = [run_removals(points, removals, count) for removals in orders]
        rows = [row for each in runs for row in rows_of(points.name, each)]
        rows += _byte_rows(points)
        rows += [_decoding_row(bins) for bins in decoding]
    kinds = [removals.text for removals in orders]
    return BenchResult(tuple(rows), {"dataset": points.name, "split": points.split, "kinds": kinds}), runs


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
