"""Folders of small images by class, to read and to train on."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fedgrove.node.base.strict_tables import build
from fedgrove.node.learning.image_settings import ImageSettings

OPTIONS: dict[str, Any] = {"classes": ["across", "up"], "shape": [1, 8, 8]}


def settings(**changes: Any) -> ImageSettings:
    """The settings of ``OPTIONS`` with changes."""
    return build(ImageSettings, OPTIONS | changes, "task.options")


def picture(path: Path, pixels: np.ndarray) -> Path:
    """Write bytes (height, width) or (height, width, 3) as an image file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)
    return path


def bars(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images (count, 8, 8) of a bar, as bytes: across (label 0) or up (label 1)."""
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    images = generator.integers(0, 80, (count, 8, 8))
    for image, label in zip(images, labels, strict=True):
        place = generator.integers(8)
        image[(slice(None), place) if label else place] = 255
    return images.astype(np.uint8), labels


def write_bars(folder: Path, count: int, seed: int) -> Path:
    """``bars`` as a folder of classes."""
    for number, (image, label) in enumerate(zip(*bars(count, seed), strict=True)):
        picture(folder / OPTIONS["classes"][label] / f"{number:03}.png", image)
    return folder
