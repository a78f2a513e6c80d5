"""Labelled images as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.settings import ModelSpec


@dataclass(frozen=True)
class Samples:
    """Labelled images.

    Attributes
    ----------
    x : ndarray
        float32, shape (n, channels, height, width), values in [0, 1]; 0 is black.
    y : ndarray
        int64, shape (n,): the label of each image.
    """

    x: np.ndarray
    y: np.ndarray

    def __post_init__(self) -> None:
        if self.x.dtype != np.float32 or self.x.ndim != 4:
            raise InvalidInput(
                f"images must be float32 (n, channels, height, width), not {self.x.dtype} {self.x.shape}"
            )
        if self.y.dtype != np.int64 or self.y.shape != self.x.shape[:1]:
            raise InvalidInput(f"labels must be int64, one for each of the {len(self.x)} images")

    def __len__(self) -> int:
        return len(self.y)

    def take(self, indices: np.ndarray | Sequence[int]) -> "Samples":
        """Return the samples at ``indices`` (copies)."""
        chosen = np.asarray(indices, dtype=np.int64)
        return Samples(self.x[chosen], self.y[chosen])


def misfit(samples: Samples, spec: ModelSpec) -> str:
    """Why a model cannot take these samples, as a sentence's end; empty where it can."""
    if samples.x.shape[1:] != tuple(spec.input_shape):
        shape = "x".join(map(str, samples.x.shape[1:]))
        return f"images have shape {shape}, but the federation's model takes {list(spec.input_shape)}"
    if len(samples) and not 0 <= int(samples.y.min()) <= int(samples.y.max()) < spec.classes:
        return f"there is a label {samples.y.max()}, the federation's are 0 to {spec.classes - 1}"
    return ""


@dataclass(frozen=True)
class Dataset:
    """A dataset in memory, with its own split into training and test samples; labels are 0 … classes − 1."""

    name: str
    classes: int
    training: Samples
    held_out: Samples

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of every image."""
        channels, height, width = self.training.x.shape[1:]
        return channels, height, width

    def train(self) -> Samples:
        """Samples to split over clients."""
        return self.training

    def test(self) -> Samples:
        """Samples on which the global model is evaluated; no client trains on them."""
        return self.held_out


def as_samples(images: object, labels: object) -> Samples:
    """Check and convert arrays of the user's own.

    Parameters
    ----------
    images : array
        (n, h, w) or (n, c, h, w); unsigned bytes 0 … 255, or floating point in [0, 1].
    labels : array
        (n,) whole numbers from 0.

    Raises
    ------
    InvalidInput
        One sentence: what is wrong with which array.
    """
    x, y = np.asarray(images), np.asarray(labels)
    if x.ndim == 3:
        x = x[:, None]
    if x.ndim != 4 or 0 in x.shape:
        raise InvalidInput(f"images must have shape (n, h, w) or (n, c, h, w) with n of at least 1, not {x.shape}")
    if y.shape != x.shape[:1]:
        raise InvalidInput(f"there are {len(x)} images, but labels of shape {y.shape}")
    if not np.issubdtype(y.dtype, np.integer) or int(y.min()) < 0:
        raise InvalidInput("labels must be whole numbers from 0")
    if x.dtype == np.uint8:
        x = x.astype(np.float32) / np.float32(255)
    elif np.issubdtype(x.dtype, np.floating):
        x = x.astype(np.float32)
    else:
        raise InvalidInput(f"images must be unsigned bytes or floating point in [0, 1], not {x.dtype}")
    if not np.isfinite(x).all():
        raise InvalidInput("images hold NaN or infinity: replace or leave out these samples")
    if not (float(x.min()) >= 0 and float(x.max()) <= 1):
        raise InvalidInput("images must lie in [0, 1] (or be unsigned bytes, which are divided by 255)")
    return Samples(np.ascontiguousarray(x), np.ascontiguousarray(y, dtype=np.int64))
