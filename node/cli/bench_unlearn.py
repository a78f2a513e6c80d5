"""Figures of federated K-means that forgets: losses, removals beside retraining, decoding, bytes (seed 000, section 6).

Seconds are of processor time, on one core where BLAS is told so. Clients work side by side, so a round takes what the
slowest of them takes, and then the server.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, stdev

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus

from node.cli.output import CommandError
from node.kmeans.baselines import DCKMeans, k_fed
from node.kmeans.code import Code
from node.kmeans.counts import BinCounts
from node.kmeans.datasets import Points, PointsError, celltype, covtype, gaussian, reference_loss
from node.kmeans.decoder import decode
from node.kmeans.grid import Grid
from node.kmeans.simulation import Federation, Round, Settings

LOSS_RATIOS = {  # tables 1 and 2: MUFC, MUFC with full clustering at clients, K-FED, DC-KM
    "celltype": (1.14, 1.03, 1.72, 1.46),
    "covtype": (1.03, 1.02, 1.60, 1.03),
    "gaussian": (1.25, 1.02, 1.25, 1.02),
}
SPEED_UPS = {"celltype": 1535, "covtype": 267, "gaussian": 2074}
AVERAGE_SPEED_UP = 84
ORDERS = ("random", "adversarial")
DECODING_GOALS = {1_000: 0.6, 10_000: 10.0}

_FULL = 300
_PLAIN_RESTARTS = 10
_RETRAININGS = 5
_KEY = b"fedgrove bench unlearn"


@dataclass(frozen=True)
class Removals:
    """A run of requests.

    Attributes
    ----------
    count : int
    order : str
        ``random``: a point of a random client; ``adversarial``: the point that contributes most to the loss.
    batch : int
        Points in a request, all of one client.
    """

    count: int = 100
    order: str = "random"
    batch: int = 1


def load(name: str, directory: Path, clusters_each: int) -> Points:
    """A data set by name.

    Raises
    ------
    CommandError
        There is none of this name, or its file cannot be used.
    """
    try:
        match name:
            case "gaussian":
                return gaussian(clusters_each=clusters_each)
            case "celltype":
                return celltype(directory)
            case "covtype":
                return covtype(directory, clusters_each=clusters_each)
    except PointsError as fault:
        raise CommandError(str(fault)) from None
    raise CommandError(f"unknown data set {name!r}: choose gaussian, celltype or covtype")


def run(points: Points, removals: Removals, repeats: int = 5, decoding: tuple[int, ...] = (1_000,)) -> dict:
    """Measure and return ``{"dataset", "split", "rows": [{"name", "value", "unit", "beside"}, …]}``.

    Parameters
    ----------
    repeats : int
        Runs of each method for its loss ratio.
    decoding : tuple of int
        Numbers of occupied bins, K·L, whose sum is decoded.
    """
    rows = [*_loss_rows(points, repeats), *_removal_rows(points, removals), *_byte_rows(points)]
    rows += [_decoding_row(bins) for bins in decoding]
    return {"dataset": points.name, "split": points.split, "rows": rows}


# --- losses -----------------------------------------------------------------------------------------------------------


def _loss_rows(points: Points, repeats: int) -> Iterator[dict]:
    reference = reference_loss(points.points, points.k)
    ours, full, theirs, divided = LOSS_RATIOS.get(points.name, (None,) * 4)

    def federation(seed: int, iterations: int) -> Federation:
        running = Federation(points.parts, _settings(points, iterations), np.random.default_rng(seed))
        running.train()
        return running

    yield {"name": "loss of central K-means", "value": reference, "beside": points.split}
    for name, iterations, paper in (("MUFC", 0, ours), ("MUFC, full clustering at clients", _FULL, full)):
        trained = [federation(seed, iterations) for seed in range(repeats)]
        yield _ratio_row(f"induced loss ratio: {name}", [one.induced_loss() / reference for one in trained], paper)
        yield _ratio_row(f"nearest-centre loss ratio: {name}", [one.nearest_loss() / reference for one in trained])
    baselines: dict[str, tuple[Callable, float | None]] = {
        "K-FED": (lambda rng: k_fed(points.parts, points.k, rng), theirs),
        "DC-KM": (lambda rng: DCKMeans(points.parts, points.k, rng).result(), divided),
    }
    for name, (method, paper) in baselines.items():
        results = [method(np.random.default_rng(seed)) for seed in range(repeats)]
        ratios = [result.induced_loss(points.parts) / reference for result in results]
        yield _ratio_row(f"induced loss ratio: {name}", ratios, paper)


def _ratio_row(name: str, ratios: list[float], paper: float | None = None) -> dict:
    spread = stdev(ratios) if len(ratios) > 1 else 0.0
    beside = f"± {spread:.3f}" + (f", paper {paper}" if paper else "")
    return {"name": name, "value": round(mean(ratios), 4), "unit": f"mean of {len(ratios)}", "beside": beside}


# --- removals ---------------------------------------------------------------------------------------------------------


def _removal_rows(points: Points, removals: Removals) -> Iterator[dict]:
    rng = np.random.default_rng(1)
    running = Federation(points.parts, _settings(points), np.random.default_rng(0), time.process_time)
    running.train()
    rounds: list[Round] = []
    plain: list[float] = []
    well_written: list[float] = []
    for number in range(removals.count):
        if number % max(1, removals.count // _RETRAININGS) == 0:
            left = [points.parts[index][client.rows] for index, client in running.clients.items()]
            trained = _retraining(left, points).seconds
            well_written.append(trained.total)
            plain.append(trained.uploading + trained.decoding + _plain(left, running.round.counts, points))
        rounds.append(running.forget(_request(running, points, removals, rng)))
    yield from _speed_rows(points.name, removals, rounds, mean(plain), mean(well_written))


def _request(
    running: Federation, points: Points, removals: Removals, rng: np.random.Generator
) -> Mapping[int, np.ndarray]:
    """The next points to be removed."""
    candidates = [index for index, client in running.clients.items() if len(client) >= removals.batch]
    if removals.order == "random":
        chosen = int(rng.choice(candidates))
        return {chosen: rng.permutation(running.clients[chosen].rows)[: removals.batch]}
    losses = {}
    for index in candidates:
        rows = running.clients[index].rows
        own = points.parts[index][rows]
        far = ((own - running.round.model.centres[running.round.model.predict(own)]) ** 2).sum(axis=1)
        order = np.argsort(-far)[: removals.batch]
        losses[index] = (far[order].sum(), rows[order])
    chosen = max(losses, key=lambda index: losses[index][0])
    return {chosen: losses[chosen][1]}


def _plain(left: list[np.ndarray], counts: BinCounts, points: Points) -> float:
    """Algorithm 1 with scikit-learn: the slowest client's K-means++, and K-means of as many points as there are."""
    rng = np.random.default_rng(0)
    slowest = max(
        _seconds(lambda part=part: kmeans_plusplus(part, min(points.k, len(part)), random_state=0))
        for part in left
        if len(part)
    )
    grid = _settings(points).grid
    places = np.repeat(grid.centres(counts.levels), counts.counts, axis=0)
    places += rng.uniform(-grid.step / 2, grid.step / 2, places.shape)
    return slowest + _seconds(lambda: KMeans(points.k, n_init=_PLAIN_RESTARTS, random_state=0).fit(places))


def _retraining(left: list[np.ndarray], points: Points) -> Round:
    """A good one: this program's own training, weighted bins at the server, decoding counted."""
    return Federation(left, _settings(points), np.random.default_rng(0), time.process_time).train()


def _speed_rows(
    dataset: str, removals: Removals, rounds: list[Round], plain: float, well_written: float
) -> Iterator[dict]:
    what = f"{removals.order}, {removals.batch} a request"
    calm = [done.seconds.computing for done in rounds if not any(done.redrawn.values())]
    exact = [done.seconds.total for done in rounds]
    paper = [done.seconds.computing + (done.seconds.clustering if any(done.redrawn.values()) else 0) for done in rounds]
    yield _time_row("full retraining, plain", plain, "scikit-learn, as many points at the server as at the clients")
    yield _time_row("full retraining, well written", well_written, "this program's, weighted bins at the server")
    yield _time_row(f"removal ({what})", mean(exact), "client, upload, decoding, clustering: exact")
    yield _time_row(f"{len(rounds)} removals, accumulated", sum(exact), f"plain retraining {len(rounds) * plain:.4g} s")
    redrawn = len(rounds) - len(calm)
    yield {"name": "removals that hit a centroid", "value": redrawn, "unit": f"of {len(rounds)}"}
    if calm:
        beside = f"paper {SPEED_UPS[dataset]}" if dataset in SPEED_UPS else ""
        yield _speed_row("speed-up without re-seeding, as the paper counts", plain / median(calm), beside)
    average = f"paper {AVERAGE_SPEED_UP} over its data sets"
    yield _speed_row("speed-up on average, as the paper counts", plain / mean(paper), average)
    yield _speed_row("speed-up on average, all counted", plain / mean(exact), "over plain retraining")
    yield _speed_row("speed-up on average, all counted", well_written / mean(exact), "over well-written retraining")


# --- decoding and bytes -----------------------------------------------------------------------------------------------


def _decoding_row(bins: int) -> dict:
    """Decode a sum that occupies all the bins of its capacity."""
    rng = np.random.default_rng(0)
    grid = Grid(5, 0.01, 50)
    total = BinCounts.of(rng.integers(-50, 51, (bins, 5)), rng.integers(1, 500, bins))
    code = Code(grid, len(total), total.total)
    sums = code.encode(total)
    found: list[BinCounts] = []
    seconds = _seconds(lambda: found.append(decode(code, sums)))
    if found != [total]:
        raise AssertionError("the decoded sum is not the sum")
    goal = DECODING_GOALS.get(bins)
    beside = f"goal {goal} s: {'met' if seconds < goal else 'missed'}" if goal else ""
    return _time_row(f"decoding, {bins:,} occupied bins", seconds, beside)


def _byte_rows(points: Points) -> Iterator[dict]:
    grid, clients, n = _settings(points).grid, len(points.parts), sum(map(len, points.parts))
    key = _KEY if grid.piece_count > 1 else b""
    training = Code(grid, points.k * clients, n, key)
    removal = Code(grid, 2 * points.k, 2 * n, key, signed=True)
    bits = grid.dimensions * math.log2(grid.radix)
    sparse = math.ceil(points.k * (bits + math.log2(n)) / 8)
    yield _byte_row("upload of a client: training", training.upload_bytes, f"dense: 2^{bits + 3:.0f} bytes")
    yield _byte_row("upload of a client: removal", removal.upload_bytes, "of every client, most of them of nothing")
    yield _byte_row("its bins and counts in the clear", sparse, "what a server that may see them would be sent")


# --- helpers ----------------------------------------------------------------------------------------------------------


def _settings(points: Points, iterations: int = 0) -> Settings:
    grid = Grid.covering(points.parts[0].shape[1], points.step)
    return Settings(points.k, grid, iterations=iterations)


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _time_row(name: str, seconds: float, beside: str) -> dict:
    return {"name": name, "value": round(seconds, 6), "unit": "s", "beside": beside}


def _speed_row(name: str, ratio: float, beside: str) -> dict:
    return {"name": name, "value": round(ratio, 2), "unit": "times", "beside": beside}


def _byte_row(name: str, count: int, beside: str) -> dict:
    return {"name": name, "value": count, "unit": "bytes", "beside": beside}
