"""A task for images: ``.npz`` files with ``x`` (images × channels × height × width, bytes) and labels ``y`` from 0."""

from pathlib import Path

import numpy as np
from torch import nn

import fedgrove as fg

CHANNELS, SIDE, CLASSES = 1, 16, 2


class ImageTask(fg.Task):
    def model(self):
        return nn.Sequential(
            nn.Conv2d(CHANNELS, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.GroupNorm(4, 16),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(16 * 4 * 4, CLASSES),
        )

    def data(self, source: Path):
        with np.load(source, allow_pickle=False) as file:
            images, labels = file["x"], file["y"]
        return fg.Data(train=(images.astype(np.float32) / 255, labels.astype(np.int64)))
