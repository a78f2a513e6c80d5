"""A folder with a task of a user's own, and data for it."""

from pathlib import Path

import numpy as np

TASK = '''"""Points of four numbers around three centres; every sixth is held out."""

import numpy as np
from torch import nn

import fedgrove as fg


class Points(fg.Task):
    def __init__(self, hidden: int = 6, floats: bool = False, fault: str = "") -> None:
        self.hidden, self.floats, self.fault = hidden, floats, fault

    def model(self):
        last = nn.Linear(self.hidden, 1 if self.floats else 3)
        return nn.Sequential(nn.Linear(4, self.hidden), nn.BatchNorm1d(self.hidden), nn.ReLU(), last)

    def data(self, source):
        table = np.loadtxt(source, delimiter=",", dtype=np.float32)
        held_out = np.arange(len(table)) % 6 == 0
        target = table[:, 4] if self.floats else table[:, 4].astype(np.int64)
        train, test = ((table[rows, :4], target[rows]) for rows in (~held_out, held_out))
        return fg.Data(train, None if self.fault == "nothing held out" else test)

    def loss(self, output, target):
        if self.fault == "raises":
            raise RuntimeError("no loss today")
        return super().loss(output, target) * (float("nan") if self.fault == "nan" else 1.0)
'''
FAULTY_LINE = TASK[: TASK.index("raise RuntimeError")].count("\n") + 1
TERMS = """
bound = 16.0

[task]
keep = ["1.running_*"]

[training]
epochs = 2
batch_size = 8
learning_rate = 0.1
"""


def write_task(folder: Path, terms: str = TERMS) -> Path:
    """The task's folder, with what its author suggests."""
    folder.mkdir()
    (folder / "task.py").write_text(TASK)
    (folder / "terms.toml").write_text(terms)
    (folder / "shared.csv").write_text(table(9, 9))
    return folder


def table(rows: int, seed: int) -> str:
    """Rows of four numbers and the centre that they are near to."""
    rng = np.random.default_rng(seed)
    centre = rng.integers(0, 3, rows)
    points = np.random.default_rng(0).normal(size=(3, 4))[centre] * 2 + rng.normal(size=(rows, 4))
    listed = np.column_stack([points, centre]).tolist()
    return "".join(",".join(f"{value:.4f}" for value in row) + "\n" for row in listed)
