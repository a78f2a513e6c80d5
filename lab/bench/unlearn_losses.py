"""The paper's figures of losses (figures 3a to 3d and 4a to 4d), and why losses differ from the paper's.

Every trial is a file in ``OUT/runs``. One that is there and of the same trial is not repeated.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from fedgrove.node.base.files import write_atomically
from fedgrove_lab.bench.rows import BenchResult, BenchRow
from fedgrove_lab.kmeans.trials import (
    CENTRAL,
    CLUSTERS,
    DC_KM,
    DIFFERENCES,
    FULL,
    K_FED,
    MUFC,
    ON_LEDGER,
    PAPER_DEVIATION,
    UNIFORM,
    Trial,
    dealt,
    loss_ratios,
    removal_courses,
)
from fedgrove_lab.made import Made, add_made

K_PRIME, STEP, REMOVALS, PREPARATION = "k-prime", "step", "removals", "preparation"
FIGURES = (PREPARATION, K_PRIME, REMOVALS, STEP)
RUNS = "runs"
REQUESTS = 50

COMPARED = (MUFC, FULL, K_FED, DC_KM)
COARSENESS = (0.25, 1.0, 4.0, 16.0, 64.0)

PREPARED = {  # as the paper prepares them, as far as it says how
    "celltype": Trial("celltype", "authors", 0),
    "covtype": Trial("covtype", "filled", 3, columns=True),
    "gaussian": Trial("gaussian", "filled", 5, deviation=PAPER_DEVIATION),
}


@dataclass(frozen=True)
class Arm:
    """What is run with several seeds.

    Attributes
    ----------
    trial : Trial
        With seed 0.
    methods : tuple of str
        Empty where removals are followed.
    """

    figure: str
    name: str
    trial: Trial
    methods: tuple[str, ...] = ()

    def with_seed(self, seed: int) -> "Arm":
        """The same, of another seed."""
        return replace(self, name=f"{self.name}-seed{seed}", trial=replace(self.trial, seed=seed))


@dataclass(frozen=True)
class Outcome:
    """What a trial gave.

    Attributes
    ----------
    values : mapping of str to list of float
        Loss ratios by method: one, or one after each request.
    """

    trial: Trial
    step: float
    values: Mapping[str, list[float]]

    def to_bytes(self) -> bytes:
        return (json.dumps(asdict(self)) + "\n").encode()


def arms(figures: Sequence[str] = FIGURES, datasets: Sequence[str] = tuple(CLUSTERS)) -> list[Arm]:
    """What the figures need, in the order in which it is run."""
    made = {K_PRIME: _k_prime_arms, STEP: _step_arms, REMOVALS: _removal_arms, PREPARATION: _preparation_arms}
    return [arm for figure in figures for dataset in datasets for arm in made[figure](dataset)]


def _k_prime_arms(dataset: str) -> Iterator[Arm]:
    for each in range(1, CLUSTERS[dataset] + 1):
        trial = replace(PREPARED[dataset], split="filled", clusters_each=each)
        yield Arm(K_PRIME, f"{K_PRIME}-{dataset}-{each}", trial, COMPARED)


def _step_arms(dataset: str) -> Iterator[Arm]:
    for coarseness in COARSENESS:
        trial = replace(PREPARED[dataset], coarseness=coarseness)
        yield Arm(STEP, f"{STEP}-{dataset}-{coarseness:g}", trial, (MUFC, UNIFORM, FULL))


def _removal_arms(dataset: str) -> Iterator[Arm]:
    yield Arm(REMOVALS, f"{REMOVALS}-{dataset}", replace(PREPARED[dataset], removals=REQUESTS))


def _preparation_arms(dataset: str) -> Iterator[Arm]:
    match dataset:
        case "celltype":
            trials = [PREPARED[dataset], *(Trial(dataset, split, 2) for split in ("filled", "drawn"))]
        case "covtype":
            ways = [("drawn", 1), ("drawn", 3), ("filled", 1), ("filled", 3)]
            trials = [Trial(dataset, *way, columns=columns) for columns in (False, True) for way in ways]
        case _:
            ways = [("components", 1), ("drawn", 1), ("filled", 5)]
            trials = [Trial(dataset, *way, deviation=0.5) for way in ways]
            ways += [("drawn", 5), ("filled", 1)]
            trials += [Trial(dataset, *way, deviation=PAPER_DEVIATION) for way in ways]
    if dataset != "celltype":
        trials += [replace(trials[0], restarts=restarts) for restarts in (1, 200)]
    for trial in trials:
        scale = "-columns" if trial.columns else f"-{trial.deviation:.2f}" if trial.deviation else ""
        tries = f"-restarts{trial.restarts}" if trial.restarts != Trial.restarts else ""
        name = f"{PREPARATION}-{dataset}{scale}-{trial.split}-{trial.clusters_each}{tries}"
        yield Arm(PREPARATION, name, trial, (*COMPARED, CENTRAL))


# --- running ----------------------------------------------------------------------------------------------------------


def run(
    asked: Sequence[Arm],
    seeds: Sequence[int],
    directory: Path,
    out: Path,
    made: Made,
    tracked: Callable[[Sequence[Arm], str], Iterable[Arm]],
) -> BenchResult:
    """Run what is not there yet.

    Parameters
    ----------
    directory : Path
        Folder that holds the files of celltype and covtype.
    out : Path
        Folder of the results; a second call goes on there.
    made : Made
        This command.
    tracked : callable
        Passes on trials while it shows how many are done.

    Raises
    ------
    DatasetError
        A file of points cannot be used.
    """
    with_seeds = [arm.with_seed(seed) for arm in asked for seed in seeds]
    todo = [arm for arm in with_seeds if not _is_there(out, arm)]
    (out / RUNS).mkdir(parents=True, exist_ok=True)
    if todo:
        add_made(out, made)
    with threadpool_limits(1):
        for arm in tracked(todo, "trials"):
            outcome = Outcome(arm.trial, dealt(arm.trial, directory).step, _values(arm, directory))
            write_atomically(path_of(out, arm), outcome.to_bytes())
    return BenchResult(tuple(_rows(out, asked)), {"seeds": list(seeds)})


def path_of(out: Path, arm: Arm) -> Path:
    """The file of an arm with a seed."""
    return out / RUNS / f"{arm.name}.json"


def read_outcome(path: Path) -> Outcome:
    """A trial's file."""
    found = json.loads(path.read_bytes())
    return Outcome(Trial(**found["trial"]), found["step"], found["values"])


def outcomes(out: Path, arm: Arm) -> list[Outcome]:
    """What there is of an arm, by seed; files of another trial do not count."""
    found = [read_outcome(path) for path in sorted((out / RUNS).glob(f"{arm.name}-seed*.json"))]
    same = [each for each in found if replace(each.trial, seed=0) == arm.trial]
    return sorted(same, key=lambda each: each.trial.seed)


def values(found: Sequence[Outcome], method: str) -> np.ndarray:
    """Loss ratios of a method: float array of shape (seeds, points of the curve)."""
    return np.array([each.values[method] for each in found])


def _is_there(out: Path, arm: Arm) -> bool:
    path = path_of(out, arm)
    return path.is_file() and read_outcome(path).trial == arm.trial


def _values(arm: Arm, directory: Path) -> dict[str, list[float]]:
    found = loss_ratios(arm.trial, arm.methods, directory) if arm.methods else removal_courses(arm.trial, directory)
    return {method: [round(ratio, 6) for ratio in ratios] for method, ratios in found.items()}


def _rows(out: Path, asked: Sequence[Arm]) -> Iterator[BenchRow]:
    for arm in asked:
        found = outcomes(out, arm)
        for method in arm.methods or (DIFFERENCES, ON_LEDGER, DC_KM):
            last = values(found, method)[:, -1]
            spread = f"± {last.std(ddof=1):.3f}" if len(last) > 1 else ""
            yield BenchRow(f"{arm.name}: {method}", round(float(last.mean()), 4), f"mean of {len(last)}", spread)
