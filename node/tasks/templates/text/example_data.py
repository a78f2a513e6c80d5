"""Invented texts to try the task with: ``python example_data.py ../train.tsv``."""

import sys
from pathlib import Path

import numpy as np

TOPICS = (
    ("rain", "cloud", "storm", "sun", "wind", "frost"),
    ("bread", "soup", "cheese", "salt", "oven", "plate"),
)
COMMON = ("the", "a", "and", "then", "today", "there", "was", "some")


def write(path: Path, lines: int = 200, seed: int = 0) -> None:
    """Write ``lines`` lines of a label and eight words."""
    generator = np.random.default_rng(seed)
    rows = []
    for label in generator.integers(len(TOPICS), size=lines):
        words = [*generator.choice(TOPICS[label], 3), *generator.choice(COMMON, 5)]
        rows.append(f"{label}\t{' '.join(generator.permutation(words))}\n")
    path.write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
