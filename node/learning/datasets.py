"""Data sets by name: scikit-learn's digits (offline), MNIST, Fashion-MNIST, CIFAR-10, and the user's own data.

With ``publishers`` and ``userdata`` the only part of ``node.learning`` that reads files or downloads.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.files import cache_folder
from fedgrove.node.learning.cifar import CLASSES as CIFAR_CLASSES
from fedgrove.node.learning.cifar import content_digest, parse_binary_batch, parse_python_batch
from fedgrove.node.learning.idx import parse_idx
from fedgrove.node.learning.publishers import (
    CIFAR10,
    FASHION_MNIST,
    MNIST,
    CifarSource,
    DatasetError,
    IdxSource,
    PublishedFile,
    download,
    read_archive,
    read_bounded,
    read_verified,
)
from fedgrove.node.learning.samples import Dataset, Samples, as_samples
from fedgrove.node.learning.settings import DATASETS
from fedgrove.node.learning.userdata import from_attribute, from_file

__all__ = ["DATASETS", "Dataset", "DatasetError", "Samples", "as_samples", "load_dataset"]

DIGITS_HELD_OUT = 360
# A batch of the Python version holds 30.7 MB of pixels; Python 3 writes them as text, up to twice as long.
MAX_BATCH_BYTES = 80 << 20
CIFAR_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")


def load_dataset(name: str, data_dir: Path | None = None) -> Dataset:
    """Load a dataset.

    Parameters
    ----------
    name : str
        ``digits``, ``mnist``, ``fashion-mnist`` or ``cifar10``; ``MODULE:ATTRIBUTE`` for an object of the user's own
        with ``train()`` and ``test()``; or the path of a .npz or .safetensors file with x_train, y_train, x_test,
        y_test.
    data_dir : Path, optional
        Where the public sets lie in their usual layout, and where they are downloaded to when absent; by default
        ``$XDG_CACHE_HOME/fedgrove`` or ``~/.cache/fedgrove``.

    Raises
    ------
    DatasetError
        Unknown name, unusable files, no network: one sentence that says what to do.
    """
    match name:
        case "digits":
            return _digits()
        case "mnist":
            return _idx(name, MNIST, data_dir or cache_folder())
        case "fashion-mnist":
            return _idx(name, FASHION_MNIST, data_dir or cache_folder())
        case "cifar10":
            return _cifar10(CIFAR10, data_dir or cache_folder())
    if name.endswith((".npz", ".safetensors")):
        return from_file(Path(name))
    if ":" in name:
        return from_attribute(name)
    raise DatasetError(
        f"unknown dataset {name!r}: choose {', '.join(DATASETS)}, MODULE:ATTRIBUTE or a .npz or .safetensors file"
    )


def _digits() -> Dataset:
    """1,797 images of 8×8 in 17 grey levels; the same 360 are held out always."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise DatasetError("the dataset digits needs scikit-learn: pip install 'fedgrove[learning]'")
    # The file itself, since to import scikit-learn takes a second and a half.
    table = np.loadtxt(Path(package.origin).parent / "datasets/data/digits.csv.gz", delimiter=",")
    images, labels = table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(labels))
    samples = as_samples(images[order] / 16, labels[order])
    held_out, training = np.split(np.arange(len(order)), [DIGITS_HELD_OUT])
    return Dataset("digits", 10, samples.take(training), samples.take(held_out))


def _idx(name: str, source: IdxSource, directory: Path) -> Dataset:
    folder = _folder_with(directory, source.folders, source.files[0])
    arrays = []
    for file in source.files:
        path = _present(folder, file) or download(file, folder)
        try:
            arrays.append(parse_idx(read_verified(path, file)))
        except InvalidContent as fault:
            raise DatasetError(f"{path} is unusable: {fault}") from None
    parts = [_images(arrays[0], arrays[1], folder), _images(arrays[2], arrays[3], folder)]
    return _counted(name, parts, source.counts, folder)


def _images(images: np.ndarray, labels: np.ndarray, folder: Path) -> Samples:
    try:
        samples = as_samples(images, labels)
    except InvalidInput as fault:
        raise DatasetError(f"the files in {folder} cannot be used: {fault}") from None
    if int(samples.y.max()) > 9:
        raise DatasetError(f"the files in {folder} cannot be used: a label is above 9")
    return samples


def _cifar10(source: CifarSource, directory: Path) -> Dataset:
    folders = [directory, *(directory / name for name in source.folders)]
    for folder in folders:
        for inner, suffix, parse in (("bin", ".bin", parse_binary_batch), ("py", "", parse_python_batch)):
            batches = folder / f"cifar-10-batches-{inner}"
            if batches.is_dir():
                names = [batches / (name + suffix) for name in CIFAR_BATCHES]
                return _cifar_batches([read_bounded(path, MAX_BATCH_BYTES) for path in names], parse, source, batches)
    found = [folder for folder in folders if (folder / source.python.name).is_file()]
    if found:
        archive, members = found[0] / source.python.name, tuple(f"cifar-10-batches-py/{name}" for name in CIFAR_BATCHES)
        contents = read_archive(archive, source.python, members, MAX_BATCH_BYTES)
        return _cifar_batches(contents, parse_python_batch, source, archive)
    present = [folder / source.binary.name for folder in folders if (folder / source.binary.name).is_file()]
    archive = present[0] if present else download(source.binary, directory / source.folders[0])
    members = tuple(f"cifar-10-batches-bin/{name}.bin" for name in CIFAR_BATCHES)
    contents = read_archive(archive, source.binary, members, MAX_BATCH_BYTES)
    return _cifar_batches(contents, parse_binary_batch, source, archive)


def _cifar_batches(contents: list[bytes], parse: Callable, source: CifarSource, origin: Path) -> Dataset:
    batches = []
    for name, content, digest in zip(CIFAR_BATCHES, contents, source.batches, strict=True):
        try:
            images, labels = parse(content)
        except InvalidContent as fault:
            raise DatasetError(f"{name} in {origin} is unusable: {fault}") from None
        if content_digest(images, labels) != digest:
            raise DatasetError(f"{name} in {origin} is not the published batch (wrong SHA-256): download it again")
        batches.append((images, labels))
    images = np.concatenate([batch[0] for batch in batches[:-1]])
    labels = np.concatenate([batch[1] for batch in batches[:-1]])
    return Dataset("cifar10", CIFAR_CLASSES, as_samples(images, labels), as_samples(*batches[-1]))


def _counted(name: str, parts: list[Samples], counts: tuple[int, int], origin: Path) -> Dataset:
    found = (len(parts[0]), len(parts[1]))
    if found != counts:
        raise DatasetError(f"{origin} holds {found} training and test samples, expected {counts}: download it again")
    return Dataset(name, 10, parts[0], parts[1])


def _folder_with(directory: Path, names: tuple[str, ...], file: PublishedFile) -> Path:
    """The first of the usual folders that holds ``file``; where to download to if none does."""
    for folder in [*(directory / name for name in names), directory]:
        if _present(folder, file):
            return folder
    return directory / names[0]


def _present(folder: Path, file: PublishedFile) -> Path | None:
    paths = (folder / file.name, folder / file.name.removesuffix(".gz"))
    return next((path for path in paths if path.is_file()), None)
