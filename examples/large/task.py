"""A model of any size in the proportions of a small language model: an embedding, and pairs of linear layers."""

from pathlib import Path

import fedgrove as fg
import numpy as np
from torch import nn

WIDTH, INNER = 768, 3072
PAIR = 2 * WIDTH * INNER + WIDTH + INNER


class Pair(nn.Module):
    """Two linear layers beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Large(fg.Task):
    """Two classes of short texts, out of an .npz file with ``x`` (n, words) and ``y``.

    Parameters
    ----------
    parameters : int
        Of the model, within a row of the embedding: about a quarter of them are the embedding's.
    """

    def __init__(self, parameters: int) -> None:
        self._pairs = (3 * parameters // 4) // PAIR
        self._rows = (parameters - self._pairs * PAIR - 2 * WIDTH - 2) // WIDTH

    def model(self):
        layers = [nn.EmbeddingBag(self._rows, WIDTH), *(Pair() for _ in range(self._pairs)), nn.Linear(WIDTH, 2)]
        return nn.Sequential(*layers)

    def data(self, source: Path):
        with np.load(source) as file:
            return fg.Data((file["x"] % self._rows, file["y"]))
