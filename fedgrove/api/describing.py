"""What is run, as it is given in Python: a scenario, or a task's class, folder or file, or the name of a data set."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.nested_tables import Tables, from_dotted, merged
from fedgrove.node.learning.settings import DATASETS
from fedgrove.node.scenario.names import tables_of
from fedgrove.node.scenario.reading import completed, read_scenario
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.tasks.class_source import ENTRY, home_of, written_out

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
    InvalidInput
        The source of the class cannot be had, or uses what cannot be written down; or there are data, and no task.
    """
    if not isinstance(given, type):
        folder = Path(given) if given is not None and _is_task(given) else None
        if folder is None and given is not None and data is not None:
            raise InvalidInput(
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


def scenario(
    path: str | PathLike[str] | None = None, settings: Mapping[str, object] | None = None, **named: Any
) -> Scenario:
    """Read a scenario from a file, or make one of the defaults; ``demo`` and ``simulate`` run it.

    Parameters
    ----------
    path : path, optional
        A scenario's or a federation's TOML file.
    settings : mapping, optional
        Values of any keys, as ``{"training.epochs": 2}``.
    **named
        Values of keys by their short names, as ``clients=4``.

    Raises
    ------
    ValueError
        A value is not allowed, or the file cannot be read; the message says which.

    Examples
    --------
    >>> import fedgrove as fg
    >>> few = fg.scenario(clients=4, rounds=2, strategy="fedavg")
    >>> few.cast.clients, few.federation.rounds, few.changed(cast={"clients": 5}).clients
    (4, 2, 5)
    """
    changes = merged(tables_of(_plain(named)), from_dotted(_plain(settings or {})))
    return read_scenario(None if path is None else Path(path), changes)


@contextmanager
def described(
    subject: "Scenario | str | PathLike[str] | type[Task] | None",
    data: str | PathLike[str] | None,
    named: Mapping[str, Any],
    settings: Mapping[str, object] | None,
    keep: Path | None = None,
    preset: Tables | None = None,
) -> Iterator[tuple[Scenario, Tables]]:
    """The scenario of a call, and the keys that the call gives values to.

    Parameters
    ----------
    subject : Scenario, class, path or str
        A scenario, or what it trains.
    named, settings : mapping
        Values of short names and, behind them, of keys with their tables.
    keep : Path, optional
        Folder of a class's file, so that a run can be resumed; by default a temporary one.
    preset : dict, optional
        Tables with other defaults than those of the keys; not for a scenario.

    Raises
    ------
    InvalidConfig, InvalidInput
        A value is not allowed, or the class cannot be written down.
    """
    if isinstance(subject, Scenario):
        changes = merged(tables_of(_plain({"data": data, **named})), from_dotted(_plain(settings or {})))
        yield completed(merged(subject.to_tables(), changes)) if changes else subject, changes
        return
    with task_path(subject, keep, data) as folder:
        what = {"task": folder} if folder is not None else {"dataset": subject}
        changes = merged(tables_of(_plain({**what, "data": data, **named})), from_dotted(_plain(settings or {})))
        yield read_scenario(changes=changes, preset=preset), changes


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values as tables have them: text for paths."""
    return {name: _plain_value(value) for name, value in given.items()}


def _plain_value(value: object) -> Any:
    if isinstance(value, PathLike):
        return fspath(cast(PathLike[str], value))
    if isinstance(value, tuple):
        return list(cast(tuple[object, ...], value))
    return _plain(cast(Mapping[str, Any], value)) if isinstance(value, Mapping) else value
