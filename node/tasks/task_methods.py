"""Which methods of a task's class fedgrove uses, found in its text: nothing is imported and nothing runs."""

import ast
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fedgrove.node.tasks.imports import parsed
from fedgrove.node.tasks.names import InvalidBundle

METHODS = (
    "answers",
    "base",
    "batch",
    "data",
    "layers",
    "loss",
    "losses",
    "metrics",
    "model",
    "optimizer",
    "predictions",
    "unlabelled",
)
"""The public methods of ``fedgrove.Task``, all of which a class may replace."""

_ALIKE = 0.75  # of difflib's ratio: "optimiser" and "optimizer" have 0.89


@dataclass(frozen=True)
class TaskClass:
    """A class that extends ``fedgrove.Task``.

    Attributes
    ----------
    path, name : str
        Its file, and its name.
    own : tuple of str
        The methods that it replaces, sorted.
    ignored : tuple of (str, str)
        Public methods that fedgrove never calls, each with the one that was probably meant.
    """

    path: str
    name: str
    own: tuple[str, ...]
    ignored: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        rest = ", ".join(name for name in METHODS if name not in self.own and name != "base")
        return f"class {self.name} has its own {', '.join(self.own) or 'nothing'}; fedgrove's are {rest}"


def task_classes(files: Mapping[str, bytes]) -> list[TaskClass]:
    """The classes of a bundle's files that extend ``Task``, also through one another."""
    found = [(path, node) for path, data in files.items() if path.endswith(".py") for node in _classes(path, data)]
    tasks, before = {"Task"}, 0
    while len(tasks) > before:
        before = len(tasks)
        tasks |= {node.name for _, node in found if tasks & set(_bases(node))}
    return [_described(path, node) for path, node in found if tasks & set(_bases(node))]


def _classes(path: str, data: bytes) -> Iterator[ast.ClassDef]:
    if b"class" not in data:
        return
    try:
        tree = parsed(path, data)
    except InvalidBundle:
        return  # it does not run, either
    yield from (node for node in tree.body if isinstance(node, ast.ClassDef))


def _bases(node: ast.ClassDef) -> Iterator[str]:
    for base in node.bases:
        if isinstance(base, ast.Name | ast.Attribute):
            yield base.id if isinstance(base, ast.Name) else base.attr


def _described(path: str, node: ast.ClassDef) -> TaskClass:
    names = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    own = names.intersection(METHODS)
    others = sorted(name for name in names - own if not name.startswith("_"))
    meant = ((name, _meant(name)) for name in others)
    return TaskClass(
        path, node.name, tuple(sorted(own)), tuple((name, it) for name, it in meant if it and it not in own)
    )


def _meant(name: str) -> str:
    """The method that a name looks like; empty where it looks like none."""
    return next(iter(difflib.get_close_matches(name.lower(), METHODS, 1, _ALIKE)), "")
