"""Members' images read as terms say: PNG and JPEG files in a folder for each class, or a file of arrays; bounded.

Pillow decodes them, in the process of a job, which is contained.
"""

import math
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from fedgrove.node.learning.image_settings import PARTS_OF_FOLDER, ImageSettings
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.userdata import Part, images_in, parts_from_file

ARRAY_FILES = (".npz", ".safetensors")
IMAGE_FILES = (".jpeg", ".jpg", ".png")
MAX_FILE_BYTES = 64 << 20
MAX_ARRAY_FILE_BYTES = 4 << 30
MAX_PIXELS = 1 << 26
MAX_VALUES = 1 << 29
"""Pixels of all images, times channels: 2 GiB as float32."""

_FORMATS = ("JPEG", "PNG")
_EIGHT_BITS = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"})
_BILINEAR = 2  # as Pillow numbers its filters
_NAMED = 10  # classes that a sentence names
TRAIN, TEST = PARTS_OF_FOLDER


def read_images(source: Path, settings: ImageSettings) -> dict[Part, Samples]:
    """The parts of a source: to train on, to evaluate on, or both.

    A folder with ``train`` and perhaps ``test`` (folders, or files of arrays) has these parts, and so has a file of
    arrays. All of a folder of classes is to train on, and to evaluate on if its name starts with ``test``.

    Raises
    ------
    DatasetError
        A folder or a file is not as the terms say; the message is one sentence that names it.
    """
    if not source.is_dir():
        return _arrays(source, settings)
    places = [place for place in _entries(source) if place.stem in PARTS_OF_FOLDER]
    if not places:
        return {TEST if source.name.startswith(TEST) else TRAIN: read_folder(source, settings)}
    if len({place.stem for place in places}) < len(places):
        raise DatasetError(f"{source.name} has a part twice: keep one of {', '.join(place.name for place in places)}")
    return {part: found for place in places for part, found in _named_part(place, settings)}


@dataclass(frozen=True)
class UnlabelledImages:
    """Images, float32 (n, channels, height, width) in 0 … 1, and the name of each; none where they are arrays."""

    images: np.ndarray
    names: tuple[str, ...]


def read_unlabelled(source: Path, settings: ImageSettings) -> UnlabelledImages | None:
    """Image files, or the array ``x`` of a file; None where a source has its images by class.

    Raises
    ------
    DatasetError
        A file is not as the terms say.
    """
    if not source.is_dir() and source.suffix in ARRAY_FILES:
        return _unlabelled_arrays(source, settings)
    paths = _entries(source) if source.is_dir() else [source]
    if any(path.is_dir() for path in paths):
        return None
    if not 0 < len(paths) <= _most(settings):
        raise DatasetError(f"{source.name} has {len(paths)} images: give 1 to {_most(settings)}")
    images = np.stack([read_image(path, settings) for path in paths])
    return UnlabelledImages(images, tuple(path.name for path in paths))


def _unlabelled_arrays(path: Path, settings: ImageSettings) -> UnlabelledImages | None:
    _check_arrays(path)
    images = images_in(path, settings.spec, MAX_VALUES)
    return None if images is None else UnlabelledImages(images, ())


def read_folder(folder: Path, settings: ImageSettings) -> Samples:
    """The images of a folder of classes, sorted by class and name; DatasetError as ``read_images``."""
    found = list(image_files(folder, settings.classes, _most(settings)))
    images = np.empty((len(found), *settings.shape), np.float32)
    for index, (path, _) in enumerate(found):
        images[index] = read_image(path, settings)
    return Samples(images, np.array([label for _, label in found], np.int64))


def image_files(folder: Path, classes: Sequence[str], most: int) -> Iterator[tuple[Path, int]]:
    """The files of a folder of classes with their labels; DatasetError where there are none, or more than ``most``."""
    labels, count = {name: label for label, name in enumerate(classes)}, 0
    for place in _entries(folder):
        if not place.is_dir():
            raise DatasetError(f"{_short(place)} lies outside the folders of the classes ({_named(classes)})")
        if place.name not in labels:
            raise DatasetError(f"{_short(place)} is none of the classes that the terms list ({_named(classes)})")
        for path in _entries(place):
            count += 1
            if count > most:
                raise DatasetError(f"{folder.name} has more than {most} images of the terms' shape: give fewer")
            yield path, labels[place.name]
    if not count:
        raise DatasetError(f"{folder.name} has no image in a folder of its class ({_named(classes)})")


def read_image(path: Path, settings: ImageSettings) -> np.ndarray:
    """An image file as float32 (channels, height, width) in 0 … 1; DatasetError as ``read_images``."""
    channels, height, width = settings.shape
    if channels not in (1, 3):
        raise DatasetError(f"image files have 1 or 3 channels, and the terms say {channels}: give arrays")
    image = opened(path)
    if image.size != (width, height) and settings.size == "refuse":
        found = f"{image.size[0]}×{image.size[1]} pixels, and the terms say {width}×{height}"
        raise DatasetError(f'{_short(path)} has {found}: scale it, or agree on size = "scale" in the terms')
    with _decoding(path):
        pixels = np.asarray(_fitted(image, settings), np.float32) / np.float32(255)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def opened(path: Path) -> Any:
    """An image as Pillow has it, upright; DatasetError where it is too large or no image.

    An image with more than 8 bits a channel is refused: Pillow would cut its values, not scale them.
    """
    data = _bytes(path)
    try:
        from PIL import Image, ImageOps
    except ImportError:
        advice = "pip install 'fedgrove[images]', or give arrays (.npz)"
        raise DatasetError(f"to read {_short(path)} needs Pillow, which is not installed: {advice}") from None
    with _decoding(path):
        image = Image.open(BytesIO(data), formats=_FORMATS)
        if math.prod(image.size) > MAX_PIXELS:
            raise DatasetError(f"{_short(path)} has more than {MAX_PIXELS} pixels: scale it")
        if image.mode not in _EIGHT_BITS:
            raise DatasetError(f"{_short(path)} has pixels of kind {image.mode}: save it with 8 bits a channel")
        ImageOps.exif_transpose(image, in_place=True)
    return image


@contextmanager
def _decoding(path: Path) -> Iterator[None]:
    """Inside, whatever a decoder raises is a fault of the file."""
    try:
        yield
    except (DatasetError, MemoryError):
        raise
    except Exception as fault:
        raise DatasetError(f"{_short(path)} is not an image that can be read: {fault}") from None


def _fitted(image: Any, settings: ImageSettings) -> Any:
    """The image with the terms' channels, height and width."""
    channels, height, width = settings.shape
    shown = image.convert("L" if channels == 1 else "RGB")
    return shown if shown.size == (width, height) else shown.resize((width, height), _BILINEAR)


def _arrays(path: Path, settings: ImageSettings) -> dict[Part, Samples]:
    _check_arrays(path)
    parts = parts_from_file(path, settings.spec, MAX_VALUES)
    if not parts:
        raise DatasetError(f"{path.name} has neither x_train and y_train nor x_test and y_test")
    return parts


def _check_arrays(path: Path) -> None:
    if path.suffix not in ARRAY_FILES:
        raise DatasetError(f"{path.name} must be a folder of classes, or end in {' or '.join(ARRAY_FILES)}")
    if _regular(path).st_size > MAX_ARRAY_FILE_BYTES:
        raise DatasetError(f"{path.name} is larger than {MAX_ARRAY_FILE_BYTES >> 30} GiB")


def _named_part(place: Path, settings: ImageSettings) -> Iterator[tuple[Part, Samples]]:
    """What ``train`` or ``test`` holds, as that part; a file has only that one."""
    part: Part = "train" if place.stem == TRAIN else "test"
    found = {part: read_folder(place, settings)} if place.is_dir() else _arrays(place, settings)
    if set(found) != {part}:
        raise DatasetError(f"{_short(place)} must hold x_{part} and y_{part} alone, as its folder has both parts")
    yield part, found[part]


def _bytes(path: Path) -> bytes:
    if path.suffix.lower() not in IMAGE_FILES:
        raise DatasetError(f"{_short(path)} must end in {', '.join(IMAGE_FILES)}")
    _regular(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as fault:
        raise DatasetError(f"cannot read {_short(path)}: {fault.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise DatasetError(f"{_short(path)} is larger than {MAX_FILE_BYTES >> 20} MiB")
    return data


def _regular(path: Path) -> Any:
    """Its status; a pipe or a device, which might be read for ever, is refused."""
    try:
        status = path.stat()
    except OSError as fault:
        raise DatasetError(f"cannot read {_short(path)}: {fault.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise DatasetError(f"{_short(path)} is not a plain file")
    return status


def _entries(folder: Path) -> list[Path]:
    """What is in a folder, hidden names left out, in the order of the names."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _most(settings: ImageSettings) -> int:
    return MAX_VALUES // math.prod(settings.shape)


def _short(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _named(classes: Sequence[str]) -> str:
    more = ", …" if len(classes) > _NAMED else ""
    return ", ".join(classes[:_NAMED]) + more
