"""Measure a round of three clients on a model of many parameters: ``python scripts/measure_large.py``.

The data are one small batch a client: what is measured is everything else. Prints JSON; with ``--out`` a folder gets
``README.md`` and a file for each run.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from rounds_of_processes import Work, measure

TASK = Path(__file__).parent / "large_task"
SAMPLES, WORDS = 8, 16


def work(parameters: int, clients: int, root: Path) -> Work:
    """Sources of data in ``root``, and terms whose bounds allow the model."""
    rng = np.random.default_rng(0)
    sources = tuple(root / f"data-{number}.npz" for number in range(clients))
    for source in sources:
        np.savez(source, x=rng.integers(0, 1 << 31, (SAMPLES, WORDS)), y=rng.integers(0, 2, SAMPLES))
    tables = {
        "federation": {"name": "large", "rounds": 1, "max_blob_mib": 2 + (4 * parameters >> 20)},
        "task": {"options": {"parameters": parameters}},
        "training": {"epochs": 1, "batch_size": SAMPLES},
        "strategy": {"name": "fedavg"},
    }
    return Work(TASK, sources, tables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", type=int, default=110_000_000)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--kubo", action="store_true", help="a Kubo node in place of a folder as the store")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedgrove-") as folder:
        root = Path(folder)
        print(json.dumps(measure(work(options.parameters, options.clients, root), root, options.kubo), indent=2))


if __name__ == "__main__":
    main()
