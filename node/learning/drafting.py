"""Terms to begin with, out of one member's images: a person reads and changes them before anybody agrees to them.

``draft`` does the same for a table as well, as a job of a process with bounds: a file's author may have meant it to be
a bomb.
"""

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.image_files import ARRAY_FILES, MAX_VALUES, TRAIN, image_files, opened
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.settings import MAX_CLASSES, MAX_SIDE, default_model
from fedgrove.node.learning.tables.drafting import draft_terms
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.learning.userdata import arrays_in

MAX_LOOKED_AT = 1000  # images whose sizes are compared
_SIDE = 64  # of images that have several sizes
_GREY = frozenset({"1", "L", "LA"})
_TEXT = """\
# A task without code, drafted from one member's images. All of this will be public in the federation's terms.
# State what holds for every member's images: all classes, and one shape.
[task]
name = "images"

[task.options]
classes = {classes}  # {meaning}
shape = [{shape}]  # channels, height, width
size = "{size}"  # of files of another size: "refuse" stops, "scale" stretches them
model = "{model}"

[training]
epochs = 5
batch_size = 16
learning_rate = 0.05
momentum = 0.9
"""


def draft(header: Mapping[str, Any], tensors: Tensors, source: Path, data: Path | None) -> tuple[dict, Tensors]:
    """The ``text`` of terms for a table (with ``target`` and ``format``) or for images, or a ``fault``."""
    try:
        if "target" in header:
            return {"text": draft_terms(source, header["target"], TableFormat.of(header["format"]))}, {}
        return {"text": draft_image_terms(source)}, {}
    except DatasetError as fault:
        return {"fault": str(fault)}, {}


def draft_image_terms(source: Path) -> str:
    """The text of a ``terms.toml`` for images like these.

    Parameters
    ----------
    source : Path
        A folder with a folder for each class, or with these folders in ``train``; or a file of arrays.

    Raises
    ------
    DatasetError
        The images cannot be read, or there is one class only.
    """
    if source.suffix in ARRAY_FILES and not source.is_dir():
        return _of_arrays(source)
    if not source.exists():
        raise DatasetError(f"there is no {source}: give a folder with a folder of images for each class")
    if not source.is_dir():
        raise DatasetError(f"{source.name} must be a folder of classes, or end in {' or '.join(ARRAY_FILES)}")
    folder = source / TRAIN if (source / TRAIN).is_dir() else source
    classes = sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
    _check_classes(source, len(classes))
    shape, size = _shape(path for path, _ in image_files(folder, classes, MAX_VALUES))
    return _text(classes, shape, size, "the names of the folders")


def _of_arrays(source: Path) -> str:
    arrays = arrays_in(source, ("x_train", "y_train"), MAX_VALUES)
    if len(arrays) < 2 or not arrays["y_train"].size:
        raise DatasetError(f"{source.name} lacks x_train or y_train: it must hold both")
    images, labels = arrays["x_train"], arrays["y_train"]
    if images.ndim not in (3, 4) or labels.dtype.kind not in "iu":
        raise DatasetError(f"{source.name} must hold images (n, c, h, w) or (n, h, w), and whole numbers as labels")
    shape = images.shape[1:] if images.ndim == 4 else (1, *images.shape[1:])
    highest = int(labels.max())
    _check_classes(source, highest + 1)
    classes = [f"class {label}" for label in range(highest + 1)]
    return _text(classes, shape, "refuse", "names of the labels 0, 1, …")


def _check_classes(source: Path, count: int) -> None:
    if not 2 <= count <= MAX_CLASSES:
        raise DatasetError(f"{source.name} has {count} classes of images: a task needs from 2 to {MAX_CLASSES}")


def _shape(paths: Iterable[Path]) -> tuple[tuple[int, int, int], str]:
    """Channels, height and width that suit all images, and what to do with those of another size."""
    looked_at = {_kind(path) for path in islice(paths, MAX_LOOKED_AT)}
    channels = 1 if all(mode in _GREY for mode, _ in looked_at) else 3
    sizes = {size for _, size in looked_at}
    width, height = next(iter(sizes))
    if len(sizes) == 1 and max(width, height) <= MAX_SIDE:
        return (channels, height, width), "refuse"
    side = min(_SIDE, *(min(size) for size in sizes))
    return (channels, side, side), "scale"


def _kind(path: Path) -> tuple[str, tuple[int, int]]:
    image = opened(path)
    return image.mode, image.size


def _text(classes: list[str], shape: tuple[int, ...], size: str, meaning: str) -> str:
    return _TEXT.format(
        classes=json.dumps(classes, ensure_ascii=False).replace("\x7f", "\\u007f"),
        meaning=meaning,
        shape=", ".join(map(str, shape)),
        size=size,
        model=default_model("", shape),
    )
