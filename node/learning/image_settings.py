"""What terms say of images and of the network that learns them: ``[task.options]`` of the task ``images``."""

from dataclasses import dataclass
from typing import Literal

from fedgrove.node.learning.settings import ImageShape, ModelName, ModelSpec, ShippedTask

PARTS_OF_FOLDER = ("train", "test")
"""Names of the two folders, or files, of one source; no class may have them."""
_LONGEST = 100  # characters of a class's name


@dataclass(frozen=True)
class ImageSettings(ShippedTask):
    """The options of the task ``images``.

    Attributes
    ----------
    classes : tuple of str
        Names of the folders, one for each class. In arrays their places, from 0, are the labels.
    shape : tuple of int
        Channels, height and width of every image: 1 channel for grey, 3 for colours.
    model : str
        ``small-cnn``, ``paper-cnn``, ``paper-cnn-same``, ``geyer-mlp``, or ``small-mlp``; with ``-centred`` behind the
        first two, for photographs.
    size : str
        An image file of another height or width: ``refuse`` stops with its name, ``scale`` stretches it.
    """

    classes: tuple[str, ...]
    shape: ImageShape
    model: ModelName = "small-cnn"
    size: Literal["refuse", "scale"] = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = len(self.classes) >= 2 and len(set(self.classes)) == len(self.classes)
        self.require(fine, "classes", "a list of at least two different names")
        fine = all(map(_is_folder, self.classes))
        self.require(fine, "classes", "names of folders, without / and no dot first; not train or test")
        assert self.spec  # which refuses too many classes

    @property
    def spec(self) -> ModelSpec:
        return ModelSpec(self.model, self.shape, len(self.classes))


def _is_folder(name: str) -> bool:
    sound = 0 < len(name) <= _LONGEST and name.isprintable() and name == name.strip()
    return sound and "/" not in name and not name.startswith(".") and name not in PARTS_OF_FOLDER
