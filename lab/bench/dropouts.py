"""Seconds of a round with clients that drop out, compared with the same federation without dropouts, in turns."""

import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

from fedgrove.chain.face.networks import anvil
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.devnet.demo import Demo
from fedgrove.node.devnet.subjects import DatasetSubject
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.scenario.reading import scenario
from fedgrove.node.scenario.scenario import Scenario
from fedgrove_lab.bench.rows import BenchResult, BenchRow

_REPEATS = 3


def run(clients: int, rounds: int, drop: float) -> BenchResult:
    """Measure on a chain and a store of their own, in this process; the first round of each run warms it up."""
    dataset = load_dataset("digits")
    plain = scenario(clients=clients, rounds=rounds + 1, strategy="fedavg")
    seconds: dict[float, list[float]] = {0.0: [], drop: []}
    for _ in range(_REPEATS):
        for fraction, found in seconds.items():
            found += _seconds(replace(plain, cast=replace(plain.cast, drop=fraction)), dataset)
    without, with_drop = median(seconds[0.0]), median(seconds[drop])
    dropping = f"a round in which {int(drop * clients)} of them drop out"
    compared = BenchRow.compared(dropping, with_drop, "s", without, "without", digits=2)
    rows = (BenchRow(f"a round of {clients} clients", without, "s"), compared)
    return BenchResult(rows, {"clients": clients, "rounds": rounds, "drop": drop, "ratio": compared.ratio})


def _seconds(plan: Scenario, dataset: Dataset) -> list[float]:
    with anvil() as network, tempfile.TemporaryDirectory(prefix="fedgrove-") as directory:
        demo = Demo(plan, DatasetSubject(dataset), network, DiskStore(Path(directory)))
        demo.run()
    return [spent for number, spent in demo.seconds.items() if number > 1]
