"""ResNet-18 for small images (He et al. 2015), with group or batch normalisation."""

from pathlib import Path

import fedgrove as fg
import numpy as np
from torch import nn
from torch.nn import functional

STAGES = ((1, 1), (2, 2), (4, 2), (8, 2))
"""Width, in multiples of the first, and stride of each stage."""
GROUPS = 8


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, given: int, width: int, stride: int, norm: str) -> None:
        super().__init__()
        self.first, self.norm1 = _convolution(given, width, stride), _norm(norm, width)
        self.second, self.norm2 = _convolution(width, width, 1), _norm(norm, width)
        self.shortcut, self.norm3 = nn.Identity(), nn.Identity()
        if stride != 1 or given != width:
            self.shortcut, self.norm3 = nn.Conv2d(given, width, 1, stride, bias=False), _norm(norm, width)

    def forward(self, x):
        out = functional.relu(self.norm1(self.first(x)))
        return functional.relu(self.norm2(self.second(out)) + self.norm3(self.shortcut(x)))


class ResNet(nn.Module):
    """Four stages of blocks behind one convolution, and a linear layer on the mean of each channel."""

    def __init__(self, width: int, blocks: int, classes: int, norm: str) -> None:
        super().__init__()
        self.stem, self.norm0 = _convolution(3, width, 1), _norm(norm, width)
        layers, given = [], width
        for factor, stride in STAGES:
            for number in range(blocks):
                layers.append(Block(given, factor * width, stride if number == 0 else 1, norm))
                given = factor * width
        self.blocks, self.head = nn.Sequential(*layers), nn.Linear(given, classes)

    def forward(self, x):
        out = self.blocks(functional.relu(self.norm0(self.stem(x))))
        return self.head(out.mean((2, 3)))


class Pictures(fg.Task):
    """Images of 32 × 32 pixels out of an .npz file: ``x`` uint8 (n, 3, 32, 32), ``y`` labels, and a test set.

    Parameters
    ----------
    norm : str
        ``group``, or ``batch``: then keep the norms at home, ``keep = ["*norm*"]``.
    width, blocks, classes : int
        Channels of the first stage, and blocks of each: 64 and 2 are a ResNet-18 of 11.2 million parameters.
    """

    def __init__(self, norm: str = "group", width: int = 64, blocks: int = 2, classes: int = 10) -> None:
        self._built = (width, blocks, classes, norm)

    def model(self):
        return ResNet(*self._built)

    def data(self, source: Path):
        with np.load(source) as file:
            held_out = (_scaled(file["x_test"]), file["y_test"]) if "x_test" in file else None
            return fg.Data((_scaled(file["x"]), file["y"]), held_out)


def _scaled(images: np.ndarray) -> np.ndarray:
    """Values around zero: the same for every member, whatever its own images are."""
    return (images.astype(np.float32) / 255 - 0.5) / 0.25


def _convolution(given: int, width: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(given, width, 3, stride, 1, bias=False)


def _norm(kind: str, width: int) -> nn.Module:
    if kind not in ("group", "batch"):
        raise ValueError(f"norm must be group or batch, not {kind!r}")
    return nn.BatchNorm2d(width) if kind == "batch" else nn.GroupNorm(min(GROUPS, width), width)
