"""What a run learns, as it is given in Python: a task's class, folder or file, or the name of a data set."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrove.node.learning.settings import DATASETS
from fedgrove.node.tasks.class_source import ENTRY, home_of, written_out
from fedgrove.node.tasks.names import BundleError

if TYPE_CHECKING:
    from fedgrove.node.learning.tasks import Task


@contextmanager
def task_path(
    given: "str | PathLike[str] | type[Task] | None",
    keep: Path | None = None,
    data: str | PathLike[str] | None = None,
) -> Iterator[Path | None]:
    """Where a task's code is; None for a data set, and for nothing.

    Parameters
    ----------
    given : class, path or str
        A class of a notebook or script is written into a file.
    keep : Path, optional
        Folder of that file, so that a run can be resumed; by default a temporary one.
    data : path, optional
        What the task's ``data`` is to read; a data set reads nothing.

    Raises
    ------
    BundleError
        The source of the class cannot be had, or uses what cannot be written down; or there are data, and no task.
    """
    if not isinstance(given, type):
        folder = Path(given) if given is not None and _is_task(given) else None
        if folder is None and given is not None and data is not None:
            raise BundleError(
                f"{given} is neither a task's folder nor its Python file, and only a task reads data: "
                "correct the path, or leave data out"
            )
        yield folder
        return
    home = home_of(given)
    if home is not None:
        yield home
        return
    with tempfile.TemporaryDirectory(prefix="fedgrove-") as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ENTRY).write_text(written_out(given))
        yield folder


def paths_by_name(given: Mapping[str, str | PathLike[str]] | None) -> dict[str, Path]:
    """The paths of frozen bases."""
    return {name: Path(path) for name, path in (given or {}).items()}


def _is_task(given: str | PathLike[str]) -> bool:
    """Whether a word is the path of a task, not the name of a data set; a path object is never such a name."""
    path = Path(given)
    return path.suffix == ".py" or not isinstance(given, str) or (path.is_dir() and given not in DATASETS)
