"""An invented table to try the task with: ``python example_data.py ../train.csv``."""

import sys
from pathlib import Path

import numpy as np


def write(path: Path, rows: int = 200, seed: int = 0) -> None:
    """Write a header and ``rows`` rows of eight columns and a label."""
    generator = np.random.default_rng(seed)
    columns = generator.normal(size=(rows, 8))
    label = columns @ np.linspace(-1, 1, 8) > 0
    header = ",".join([*(f"x{number}" for number in range(8)), "label"])
    np.savetxt(path, np.column_stack([columns, label]), delimiter=",", header=header, comments="", fmt="%.4f")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
