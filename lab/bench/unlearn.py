"""Federated K-means that forgets: removals compared with DC-K-means' and with retraining, decoding, bytes.

The paper's figures (section 6) are given next to them. Seconds are of processor time on one core. Clients work side by
side, so a round takes what the slowest of them takes, and then the server. A speed-up is a mean divided by a mean over
the same requests, with the same parts of the work counted in both: everything, or, as the paper counts, without masks
and decoding in the removal and in the retraining.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from statistics import mean

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from threadpoolctl import threadpool_limits

from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.methods.kmeans.code import Code
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.datasets import Points, celltype, covtype, gaussian, reference_loss
from fedgrove.node.methods.kmeans.decoder import decode
from fedgrove.node.methods.kmeans.grid import BinGrid
from fedgrove.node.simulation.kmeans.baselines import DCKMeans
from fedgrove.node.simulation.kmeans.federation import Federation, SimulatedRound, SimulationSettings
from fedgrove_lab.bench.rows import BenchResult, BenchRow, timed

SPEED_UPS = {"celltype": 1535, "covtype": 267, "gaussian": 2074}  # table 1, where no centroid was hit
AVERAGE_SPEED_UP = 84
WITHOUT_RESEEDING, ON_AVERAGE = "speed-up without re-seeding", "speed-up on average"

REMOVAL = "removal, all counted"
ON_LEDGER = "removal, on a ledger"
BY_THE_PAPER = "removal, as the paper counts"
RIVAL = "DC-K-means"
PLAIN = "retraining, plain"
PLAIN_BY_THE_PAPER = "retraining, plain, as the paper counts"
WELL_WRITTEN = "retraining, well written"
METHODS = (REMOVAL, ON_LEDGER, BY_THE_PAPER, RIVAL, PLAIN, PLAIN_BY_THE_PAPER, WELL_WRITTEN)

DECODING_GOALS = {1_000: 0.6, 10_000: 10.0}

_KEY = b"fedgrove bench unlearn"
_PLAIN_RESTARTS = 10
_RETRAININGS = 5


@dataclass(frozen=True)
class Removals:
    """Which requests.

    Attributes
    ----------
    order : str
        ``random``: points of a random client; ``adversarial``: of the client whose points contribute most to the loss.
    batch : int
        Points in a request, all of one client.
    """

    order: str
    batch: int = 1

    @property
    def text(self) -> str:
        return f"{self.order}, {self.batch} a request"


ORDERS = {
    "random": Removals("random"),
    "adversarial": Removals("adversarial"),
    "batches-of-10": Removals("random", 10),
    "batches-of-30": Removals("random", 30),
}


@dataclass(frozen=True)
class RemovalRun:
    """What a run of requests took.

    Attributes
    ----------
    seconds : mapping of str to list of float
        For each of METHODS, of each request.
    hits : list of bool
        Whether a centroid was among the points of each request.
    loss_ratio, ledger_loss_ratio : float
        Induced loss after the last request, of central K-means' on the points left; the same where everybody is summed
        anew at each request.
    """

    removals: Removals
    seconds: Mapping[str, list[float]]
    hits: list[bool]
    loss_ratio: float
    ledger_loss_ratio: float


def settings(points: Points) -> SimulationSettings:
    """The terms under which the benchmark clusters a data set."""
    return SimulationSettings(points.k, BinGrid.covering(points.parts[0].shape[1], points.step))


def seconds_of(work: Callable[[], object]) -> float:
    """Processor time."""
    return timed(work, time.process_time)[0]


def run_removals(points: Points, removals: Removals, count: int) -> RemovalRun:
    """Make ``count`` requests of one kind, of a federation that was just trained."""
    rng = np.random.default_rng(1)
    running = Federation(points.parts, settings(points), np.random.default_rng(0), time.process_time)
    running.train()
    ledger = Federation(points.parts, settings(points), np.random.default_rng(0), time.process_time)
    ledger.train()
    rival = DCKMeans(points.parts, points.k, np.random.default_rng(0))
    seconds: dict[str, list[float]] = {method: [] for method in METHODS}
    hits = []
    for number in range(count):
        client, rows = _request(running, points, removals, rng)
        places = np.searchsorted(running.clients[client].rows, rows)
        if number % max(1, count // _RETRAININGS) == 0:
            left = [points.parts[index][each.rows] for index, each in running.clients.items()]
            retrained = _retraining(left, running.round.counts, points)
        done = running.forget({client: rows})
        hits.append(any(done.redrawn.values()))
        renewed = ledger.renew({client: rows})
        taken = (
            done.seconds.total,
            renewed.seconds.total,
            _by_the_paper(done, hits[-1]),
            _rivals(rival, client, places),
            *retrained,
        )
        for method, each in zip(METHODS, taken, strict=True):
            seconds[method].append(each)
    left = np.concatenate([points.parts[index][each.rows] for index, each in running.clients.items()])
    best = reference_loss(left, points.k)
    return RemovalRun(removals, seconds, hits, running.induced_loss() / best, ledger.induced_loss() / best)


def rows_of(dataset: str, run: RemovalRun) -> Iterator[BenchRow]:
    """Rows for the table, all named by the kind of requests."""
    taken, what = run.seconds, run.removals.text
    exact, plain, well_written = taken[REMOVAL], taken[PLAIN], taken[WELL_WRITTEN]

    def row(name: str, value: float, unit: str, note: str) -> BenchRow:
        return BenchRow(f"{what}: {name}", value, unit, note)

    yield row("full retraining, plain", _digits(mean(plain)), "s", "scikit-learn, as many points at the server")
    yield row("full retraining, well written", _digits(mean(well_written)), "s", "this program's, weighted bins")
    yield row("removal", _digits(mean(exact)), "s", "differences: client, upload, decoding, clustering; exact")
    yield row(
        "removal on a ledger", _digits(mean(taken[ON_LEDGER])), "s", "everybody summed anew; the same counted; exact"
    )
    yield row("accumulated", _digits(sum(exact)), "s", "")
    yield row("accumulated on a ledger", _digits(sum(taken[ON_LEDGER])), "s", "")
    yield row("accumulated by DC-K-means", _digits(sum(taken[RIVAL])), "s", "without masks")
    yield row("accumulated by plain retraining", _digits(sum(plain)), "s", "")
    yield row("hit a centroid", sum(run.hits), f"of {len(run.hits)}", "")
    if not all(run.hits):
        calm = [not hit for hit in run.hits]
        yield row(WITHOUT_RESEEDING, *_with_the_papers(_speed_up(run, calm), SPEED_UPS.get(dataset)))
    yield row(ON_AVERAGE, *_with_the_papers(_speed_up(run, [True] * len(run.hits)), AVERAGE_SPEED_UP))
    yield row("speed-up, all counted", round(mean(plain) / mean(exact), 1), "times", "over plain retraining")
    better = "over well-written retraining"
    yield row("speed-up, all counted, good rival", round(mean(well_written) / mean(exact), 2), "times", better)
    on_ledger = mean(taken[ON_LEDGER])
    yield row("speed-up on a ledger", round(mean(plain) / on_ledger, 2), "times", "over plain retraining")
    yield row("speed-up on a ledger, good rival", round(mean(well_written) / on_ledger, 2), "times", better)
    yield row("induced loss ratio at the end", round(run.loss_ratio, 4), "", "central K-means on what is left")
    yield row("induced loss ratio at the end, on a ledger", round(run.ledger_loss_ratio, 4), "", "the same")


def _speed_up(run: RemovalRun, of: Sequence[bool]) -> float:
    """Mean of plain retraining over mean of removal, over some requests; masks and decoding are in neither."""
    means = [mean(compress(run.seconds[method], of)) for method in (PLAIN_BY_THE_PAPER, BY_THE_PAPER)]
    return round(means[0] / means[1], 1)


def _with_the_papers(speed_up: float, goal: float | None) -> tuple[float, str, str]:
    """A speed-up, its unit and what it is compared with."""
    verdict = f"; paper {goal}: {'met' if speed_up >= goal else 'missed'}" if goal else ""
    return speed_up, "times", f"masks and decoding in neither{verdict}"


def _request(running: Federation, points: Points, removals: Removals, rng: np.random.Generator) -> tuple:
    """A client, and which rows of it go next."""
    candidates = [index for index, client in running.clients.items() if len(client) > removals.batch]
    if removals.order == "random":
        chosen = int(rng.choice(candidates))
        return chosen, rng.permutation(running.clients[chosen].rows)[: removals.batch]
    losses = {}
    for index in candidates:
        rows = running.clients[index].rows
        own = points.parts[index][rows]
        far = ((own - running.round.model.centres[running.round.model.predict(own)]) ** 2).sum(axis=1)
        order = np.argsort(-far)[: removals.batch]
        losses[index] = (far[order].sum(), rows[order])
    chosen = max(losses, key=lambda index: losses[index][0])
    return chosen, losses[chosen][1]


def _by_the_paper(done: SimulatedRound, hit: bool) -> float:
    """Without masks and decoding; the server computes only where a centroid was hit."""
    return done.seconds.computing + (done.seconds.clustering if hit else 0)


def _rivals(rival: DCKMeans, client: int, places: np.ndarray) -> float:
    return seconds_of(lambda: rival.forget(client, places)) + seconds_of(rival.centres)


def _retraining(left: list[np.ndarray], counts: BinCounts, points: Points) -> tuple[float, float, float]:
    """Seconds of training anew: algorithm 1 with scikit-learn, the same as the paper counts, and this program's own.

    Masks and decoding are in the first and the last. The plain one clusters as many points at the server as there are
    at the clients, as the paper's does.
    """
    trained = Federation(left, settings(points), np.random.default_rng(0), time.process_time).train().seconds
    slowest = max(
        seconds_of(lambda part=part: kmeans_plusplus(part, min(points.k, len(part)), random_state=0))
        for part in left
        if len(part)
    )
    rng, grid = np.random.default_rng(0), settings(points).grid
    places = np.repeat(grid.centres(counts.levels), counts.counts, axis=0)
    places += rng.uniform(-grid.step / 2, grid.step / 2, places.shape)
    plain = KMeans(points.k, n_init=_PLAIN_RESTARTS, random_state=0)  # pyright: ignore[reportArgumentType] (a number, too)
    server = seconds_of(lambda: plain.fit(places))
    return trained.uploading + trained.decoding + slowest + server, slowest + server, trained.total


def _digits(seconds: float) -> float:
    return round(seconds, 6)


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
