"""The user's own data: an object with ``train()`` and ``test()``, or a file of arrays."""

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.arrays import MAX_VALUES, read_arrays
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.samples import Dataset, Samples, as_samples, misfit
from fedgrove.node.learning.settings import ModelSpec

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
Part = Literal["train", "test"]
PARTS: tuple[Part, Part] = ("train", "test")


def from_attribute(reference: str) -> Dataset:
    """Load ``module:attribute``, importable from the current folder or the environment.

    The attribute is an object (or a class, which is called without arguments) with the methods ``train()`` and
    ``test()``. Each returns images and labels as a pair of arrays, as ``Samples``, or as a torch ``Dataset`` of
    (image, label) items. This runs the module's code: name only modules that you trust.
    """
    module_name, _, attribute = reference.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        source = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as fault:
        raise DatasetError(f"cannot load {reference!r}: {fault}; give MODULE:ATTRIBUTE that can be imported") from None
    except Exception as fault:
        raise DatasetError(_raised(reference, fault)) from None
    try:
        return _parts(source() if isinstance(source, type) else source, reference)
    except DatasetError:
        raise
    except Exception as fault:
        raise DatasetError(_raised(reference, fault)) from None


def _parts(source: Any, reference: str) -> Dataset:
    parts = []
    for method in ("train", "test"):
        if not callable(getattr(source, method, None)):
            raise DatasetError(f"{reference!r} has no method {method}(): a dataset needs train() and test()")
        parts.append(_samples(getattr(source, method)(), f"{reference}.{method}()"))
    return _joined(reference, *parts)


def _raised(reference: str, fault: Exception) -> str:
    places = [each for each in traceback.extract_tb(fault.__traceback__) if each.filename != __file__]
    place = f" ({Path(places[-1].filename).name}, line {places[-1].lineno})" if places else ""
    return f"{reference!r} raised {type(fault).__name__}: {fault}{place}: correct it"


def from_file(path: Path) -> Dataset:
    """Load a .npz or .safetensors file with x_train, y_train, x_test and y_test (never a pickle)."""
    arrays = _arrays(path, ARRAYS)
    train = _samples((arrays["x_train"], arrays["y_train"]), f"{path} (x_train, y_train)")
    return _joined(path.stem, train, _samples((arrays["x_test"], arrays["y_test"]), f"{path} (x_test, y_test)"))


def part_from_file(path: Path, part: Part, spec: ModelSpec) -> Samples:
    """Load one part of such a file (x_train and y_train, or x_test and y_test), fit for a federation's model."""
    return _part(path, _arrays(path, _names(part)), part, spec)


def parts_from_file(path: Path, spec: ModelSpec, most: int) -> dict[Part, Samples]:
    """Load the parts that such a file has, with ``most`` values in an array at most."""
    arrays = arrays_in(path, ARRAYS, most)
    return {part: _part(path, arrays, part, spec) for part in PARTS if arrays.keys() >= set(_names(part))}


def images_in(path: Path, spec: ModelSpec, most: int = MAX_VALUES) -> np.ndarray | None:
    """The images ``x`` of a file of arrays, without labels, fit for a model; None where it has no such array."""
    images = arrays_in(path, ("x",), most).get("x")
    if images is None:
        return None
    return _fitting(_samples((images, np.zeros(len(images), np.int64)), f"{path} (x)"), path, spec).x


def part_in(path: Path, spec: ModelSpec, most: int = MAX_VALUES) -> Samples:
    """The part of a file to evaluate on, or else the one to train on; raises as ``part_from_file``."""
    parts = parts_from_file(path, spec, most)
    if not parts:
        advice = "name its arrays so, or the images x to predict for without labels"
        raise DatasetError(f"{path} has neither x_test and y_test nor x_train and y_train: {advice}")
    return parts["test"] if "test" in parts else parts["train"]


def _names(part: Part) -> tuple[str, str]:
    return f"x_{part}", f"y_{part}"


def _part(path: Path, arrays: dict[str, np.ndarray], part: Part, spec: ModelSpec) -> Samples:
    names = _names(part)
    return _fitting(_samples((arrays[names[0]], arrays[names[1]]), f"{path} ({', '.join(names)})"), path, spec)


def _fitting(samples: Samples, path: Path, spec: ModelSpec) -> Samples:
    """The samples; DatasetError where the model cannot take them."""
    if fault := misfit(samples, spec):
        raise DatasetError(f"{path}: {fault}")
    return samples


def _arrays(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    arrays = arrays_in(path, names)
    missing = [name for name in names if name not in arrays]
    if missing:
        raise DatasetError(f"{path} lacks {', '.join(missing)}: it must hold {', '.join(names)}")
    return arrays


def arrays_in(path: Path, names: tuple[str, ...], most: int = MAX_VALUES) -> dict[str, np.ndarray]:
    """Those of the named arrays that a file holds; DatasetError where it cannot be read or has larger ones."""
    try:
        return read_arrays(path, names, most)
    except OSError as fault:
        raise DatasetError(f"cannot read {path}: {fault.strerror or fault}") from None
    except InvalidContent as fault:
        raise DatasetError(f"{path} {fault}") from None


def _samples(given: Any, label: str) -> Samples:
    """Convert what a user's method returned."""
    if isinstance(given, Samples):
        given = (given.x, given.y)
    try:
        if isinstance(given, tuple) and len(given) == 2:
            return as_samples(*given)
        items = [given[index] for index in range(len(given))]
        return as_samples(np.stack([np.asarray(item[0]) for item in items]), np.array([int(item[1]) for item in items]))
    except (ValueError, TypeError, IndexError, KeyError, InvalidContent, InvalidInput) as fault:
        raise DatasetError(f"{label} cannot be used: {fault}") from None


def _joined(name: str, train: Samples, test: Samples) -> Dataset:
    if train.x.shape[1:] != test.x.shape[1:]:
        raise DatasetError(
            f"{name}: training images have shape {train.x.shape[1:]}, but test images have shape {test.x.shape[1:]}"
        )
    classes = int(max(train.y.max(), test.y.max())) + 1
    if classes < 2:
        raise DatasetError(f"{name} has a single class: there is nothing to learn")
    return Dataset(name, classes, train, test)
