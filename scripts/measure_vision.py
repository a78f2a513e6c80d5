"""Measure rounds of a ResNet-18 on CIFAR-10 under masks: ``python scripts/measure_vision.py --data-dir DIR --out DIR``.

Each row is a federation of processes: FedAvg with group normalisation and with batch normalisation at home, FedAom,
MOON and FedCurv. Few images a client: what a member's own machine trains in hours is not the question here. Writes
``README.md`` and a file for each row.
"""

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
from measured_page import MIB, write_results
from rounds_of_processes import Work, measure

from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.samples import Samples

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "vision"
SHARED_PER_CLASS = 1
TRAINING = {"epochs": 1, "batch_size": 25, "learning_rate": 0.02, "learning_rate_decay": 1.0, "momentum": 0.9}


@dataclass(frozen=True)
class Row:
    """One federation: its strategy, and what of the task is not the default."""

    label: str
    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    norm: str = "group"
    keep: tuple[str, ...] = ()
    rounds: int = 1


ROWS = (
    Row("group", "fedavg", rounds=3),
    Row("batch", "fedavg", norm="batch", keep=("*norm*",)),
    Row("fedaom", "fedaom", {"shared_batch": 10, "q": 2}),
    Row("moon", "moon", rounds=2),
    Row("fedcurv", "fedcurv"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with CIFAR-10")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--images", type=int, default=200, help="of each client")
    parser.add_argument("--test", type=int, default=200, help="images of the coordinator")
    parser.add_argument("--rows", nargs="*", default=[row.label for row in ROWS])
    options = parser.parse_args()
    data = load_dataset("cifar10", options.data_dir)
    for row in ROWS:
        if row.label in options.rows:
            with tempfile.TemporaryDirectory(prefix="fedgrove-") as folder:
                work = _work(row, data.train(), data.test(), Path(folder), options)
                found = measure(work, Path(folder))
            write_results(options.out, row.label, _settings(row, options), found, PAGE)


def _work(row: Row, train: Samples, test: Samples, root: Path, options: argparse.Namespace) -> Work:
    """The folder of the task with its shared set, each client's file, and the coordinator's."""
    order = np.random.default_rng(0).permutation(len(train.y))
    folder = Path(copytree(EXAMPLE, root / "vision"))
    shared = [order[np.flatnonzero(train.y[order] == label)[:SHARED_PER_CLASS]] for label in range(10)]
    _write(folder / "shared.npz", train, np.concatenate(shared))
    rest = order[~np.isin(order, np.concatenate(shared))]
    sources = []
    for number in range(options.clients):
        sources.append(root / f"images-{number}.npz")
        _write(sources[-1], train, rest[number * options.images :][: options.images])
    held_out = np.random.default_rng(1).permutation(len(test.y))[: options.test]
    _write(root / "test.npz", train, rest[:1], {"x_test": _pixels(test, held_out), "y_test": test.y[held_out]})
    tables = {
        "federation": {"name": "vision", "rounds": row.rounds, "max_blob_mib": 256},
        "task": {"options": {"norm": row.norm}, "keep": list(row.keep), "shared": "shared.npz"},
        "training": TRAINING,
        "strategy": {"name": row.strategy, "options": dict(row.options)},
    }
    return Work(folder, tuple(sources), tables, root / "test.npz")


def _write(path: Path, samples: Samples, chosen: np.ndarray, more: Mapping[str, np.ndarray] | None = None) -> None:
    np.savez(path, x=_pixels(samples, chosen), y=samples.y[chosen], **(more or {}))


def _pixels(samples: Samples, chosen: np.ndarray) -> np.ndarray:
    """Images as bytes again."""
    return np.rint(samples.x[chosen] * 255).astype(np.uint8)


def _settings(row: Row, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "strategy": row.strategy,
        "norm": row.norm,
        "rounds of training": row.rounds,
        "clients": options.clients,
        "images a client": options.images,
        "test images": options.test,
    }


def _row(found: Mapping[str, Any]) -> str:
    peaks = (found[f"{name} peak"] / MIB for name in ("client", "training", "coordinator", "evaluation", "audit"))
    cells = [found["strategy"], found["norm"], f"{found['upload bytes'] / 1e6:.1f} MB"]
    cells += [f"{found['seconds of a round']:.0f} s", f"{found['share outside training']:.0%}"]
    cells += [*(f"{peak:.0f}" for peak in peaks), "; ".join(found["rounds"]), found["audit"]]
    return " | ".join(cells)


PAGE = (
    "A ResNet-18 on CIFAR-10",
    """Real rounds of a model of 11.2 million parameters (`examples/vision`): clients and a coordinator that evaluates
as processes, masks, a ledger (anvil) and a store in a folder, then `fedgrove audit`. Each client trains one epoch on a
few images without a GPU, on one thread: **what was affordable are a few steps, and the accuracies are those of chance
(0.1)**. The rows show what a round of this model costs and that it closes and is verified, not what it learns.
[A smaller one](learning.md) learns in minutes.

Peaks are in MiB, of one process each: training is that of the task's process in the sandbox, torch included (230).
Batch normalisation stays at home (`keep = ["*norm*"]`), so the coordinator evaluates with norms that saw no data.
FedCurv sends two more vectors of the model's size. "Outside training" is the share of a round in which the slowest
client did not train. Seconds are those of two processors with the load that the second table names.
""",
    "strategy | norm | upload of a client | seconds a round | outside training | client | training | coordinator | "
    "evaluation | audit | what the rounds came to | verdict",
    _row,
)


if __name__ == "__main__":
    main()
