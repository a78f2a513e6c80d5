"""Loading a task out of a member's folder. Runs the member's code: only in a process that may."""

import importlib.util
import inspect
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from fedgrove.node.learning.tasks.task import InvalidTask, Task

ENTRY = "task.py"
EXAMPLE = "example_data.py"
"""The file that writes example data, as ``fedgrove task new`` leaves one: it has a function ``write(path)``."""


def load_task(folder: Path, options: Mapping[str, Any] | None = None, bases: Mapping[str, Path] | None = None) -> Task:
    """Import the folder's ``task.py``, or its only Python file, and build its one subclass of ``Task`` with options.

    ``bases`` are the paths of its frozen bases by name.

    Raises
    ------
    InvalidTask
        There is no such file or class, the options do not fit the class, or importing it fails.
    """
    path = folder / ENTRY
    if not path.is_file():
        files = sorted(folder.glob("*.py"))
        if len(files) != 1:
            raise InvalidTask(f"there is no {ENTRY} in {folder.name}: put the class that extends fedgrove.Task there")
        path = files[0]
    kind = _class_of(imported(path))
    try:
        inspect.signature(kind).bind(**(options or {}))
    except TypeError as fault:
        raise InvalidTask(f"task.options do not fit {kind.__name__}: {fault}") from None
    kind.bases = dict(bases or {})  # of the class, so that ``__init__`` can read them
    return kind(**(options or {}))


def imported(path: Path) -> ModuleType:
    """The module of a file; its folder comes first in the search, so that it finds modules of its own."""
    spec = importlib.util.spec_from_file_location(f"fedgrove_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.dont_write_bytecode = True  # a compiled file in the folder of a bundle would make it another
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module


def _class_of(module: ModuleType) -> type[Task]:
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Task) and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise InvalidTask(
            f"{Path(module.__file__ or ENTRY).name} must define one class that extends fedgrove.Task, not {len(found)}"
        )
    return found[0]


def example_data(folder: Path) -> tuple[str, bytes]:
    """The ending of the example file's name, and its bytes. Runs the folder's code.

    Raises
    ------
    InvalidTask
        The folder has no such file, or it writes no file.
    """
    if not (folder / EXAMPLE).is_file():
        raise InvalidTask(f"there is no {EXAMPLE} in the task's folder")
    module = imported(folder / EXAMPLE)
    with tempfile.TemporaryDirectory() as place:
        module.write(Path(place) / "example")
        written = sorted(path for path in Path(place).iterdir() if path.is_file())
        if len(written) != 1:
            raise InvalidTask(f"write(path) of {EXAMPLE} must write one file, not {len(written)}")
        return written[0].suffix, written[0].read_bytes()
