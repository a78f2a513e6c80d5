"""Invented images to try the task with: ``python example_data.py ../train.npz``."""

import sys
from pathlib import Path

import numpy as np

SIDE = 16


def write(path: Path, images: int = 100, seed: int = 0) -> None:
    """Write noisy images of a bar: upright (label 0) or lying (label 1)."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(2, size=images)
    pictures = generator.integers(0, 80, size=(images, 1, SIDE, SIDE))
    for picture, label in zip(pictures, labels, strict=True):
        place = generator.integers(2, SIDE - 2)
        bar = (0, slice(None), place) if label == 0 else (0, place, slice(None))
        picture[bar] = 255
    np.savez_compressed(path, x=pictures.astype(np.uint8), y=labels)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
