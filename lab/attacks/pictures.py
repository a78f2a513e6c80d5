"""Originals above reconstructions: rows of grey images with their labels, as PNG."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedgrove.node.simulation.figures import drawing

COLUMNS = 12
INCHES = 0.62


def picture(rows: Mapping[str, np.ndarray], path: Path) -> None:
    """Write a picture of rows of images (n, h, w) in [0, 1]; at most twelve a row are shown.

    Raises
    ------
    node.simulation.RunFailed
        matplotlib is not installed.
    """
    columns = min(COLUMNS, max(map(len, rows.values())))
    size = (1.1 + columns * INCHES, len(rows) * INCHES + 0.1)
    with drawing(path, size) as figure:
        grid = figure.subplots(len(rows), columns, squeeze=False)
        for axes, (label, images) in zip(grid, rows.items(), strict=True):
            for place, image in zip(axes, images, strict=False):
                place.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            for place in axes:
                place.set(xticks=[], yticks=[])
                place.grid(False)
                place.spines[:].set_visible(False)
            axes[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8)
