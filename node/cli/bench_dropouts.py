"""What dropouts cost: seconds a round of one federation, undisturbed and with silent clients, run by run in turn."""

import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

from fedgrove.chain.networks import anvil
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.devnet.demo import Demo, DemoPlan
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.samples import Dataset

_REPEATS = 3


def run(clients: int, rounds: int, drop: float) -> dict:
    """Measure on a chain and a store of their own, in this process; the first round of each run warms it up."""
    dataset = load_dataset("digits")
    plain = DemoPlan(clients, rounds + 1, strategy="fedavg")
    seconds: dict[float, list[float]] = {0.0: [], drop: []}
    for _ in range(_REPEATS):
        for fraction, found in seconds.items():
            found += _seconds(replace(plain, drop=fraction), dataset)
    without, with_drop = median(seconds[0.0]), median(seconds[drop])
    ratio = round(with_drop / without, 2)
    rows = [
        {"name": f"a round of {clients} clients", "value": without, "unit": "s"},
        {
            "name": f"a round in which {int(drop * clients)} of them drop out",
            "value": with_drop,
            "unit": "s",
            "limit": round(without, 3),
            "limit_name": "without",
            "ratio": ratio,
        },
    ]
    return {"clients": clients, "rounds": rounds, "drop": drop, "ratio": ratio, "rows": rows}


def _seconds(plan: DemoPlan, dataset: Dataset) -> list[float]:
    with anvil() as network, tempfile.TemporaryDirectory(prefix="fedgrove-") as directory:
        demo = Demo(plan, dataset, network, DiskStore(Path(directory)))
        demo.run()
    return [spent for number, spent in demo.seconds.items() if number > 1]
