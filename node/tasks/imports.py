"""The packages that Python files import, found in their text: nothing is imported and nothing runs.

Names that are put together at run time (``importlib.import_module``) are not seen.
"""

import ast
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fedgrove.node.tasks.names import InvalidBundle
from fedgrove.node.tasks.python_text import check_python

_ABSENCE = {"ImportError", "ModuleNotFoundError", "Exception"}


@dataclass(frozen=True)
class ImportedModule:
    """A module that a file imports.

    Attributes
    ----------
    name : str
        Dotted.
    path, line : str, int
        Where.
    optional : bool
        Whether the code goes on without it: imported in a ``try`` that catches ImportError, or for type checkers only.
    """

    name: str
    path: str
    line: int
    optional: bool


def foreign_imports(files: Mapping[str, bytes]) -> list[ImportedModule]:
    """What a bundle's code imports from outside the bundle and the standard library; tests of the code do not count.

    Raises
    ------
    InvalidBundle
        A file is not Python, or not as ``python_text`` has it.
    """
    own = {path.split("/")[0].removesuffix(".py") for path in files if path.endswith(".py")}
    known = own | sys.stdlib_module_names
    found = (each for path, data in files.items() if _is_code(path) for each in _imports(path, data))
    return [each for each in found if each.name.split(".")[0] not in known]


def _is_code(path: str) -> bool:
    *folders, name = path.split("/")
    is_test = name.startswith("test_") or name == "conftest.py" or "tests" in folders
    return name.endswith(".py") and not is_test


def parsed(path: str, data: bytes) -> ast.Module:
    """The syntax tree of a Python file of a bundle; InvalidBundle where it is none."""
    check_python(path, data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in the text, which its author sees when it runs
            return ast.parse(data, path)
    except SyntaxError as fault:
        raise InvalidBundle(f"{path}, line {fault.lineno}: {fault.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise InvalidBundle(f"{path} is not Python that can be read") from None


def _imports(path: str, data: bytes) -> Iterator[ImportedModule]:
    pending: list[tuple[ast.AST, bool]] = [(parsed(path, data), False)]  # no recursion: a long sum is a deep tree
    while pending:
        node, optional = pending.pop()
        yield from (ImportedModule(name, path, getattr(node, "lineno", 0), optional) for name in _names(node))
        pending.extend((child, optional or _may_be_absent(node, child)) for child in ast.iter_child_nodes(node))


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module]
    return []


def _may_be_absent(node: ast.AST, child: ast.AST) -> bool:
    """Whether the code goes on when what ``child``, a part of ``node``, imports is missing."""
    if isinstance(node, ast.Try):
        return child in node.body and any(map(_catches_absence, node.handlers))
    return isinstance(node, ast.If) and child in node.body and "TYPE_CHECKING" in _words(node.test)


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or bool(_ABSENCE & _words(handler.type))


def _words(expression: ast.expr) -> set[str]:
    parts = list(ast.walk(expression))
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return names | {part.attr for part in parts if isinstance(part, ast.Attribute)}
