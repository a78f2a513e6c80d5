"""A task's class as files: the folder or file that it was imported from, or its source out of a notebook or script."""

import ast
import inspect
import linecache
import symtable
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from fedgrove.common.errors import InvalidInput

ENTRY = "task.py"


def home_of(kind: type) -> Path | None:
    """Where the code of an imported class is: the folder of its ``task.py``, else its one file.

    None for a class that a notebook, a prompt or the running script defines: its module is more than the task.
    """
    if kind.__module__ == "__main__":
        return None
    try:
        path = Path(inspect.getfile(kind))
    except (TypeError, OSError):
        return None
    return path.parent if path.name == ENTRY else path


def written_out(kind: type) -> str:
    """A module with a class of a notebook or script, and with what it uses: imports, constants, functions, classes.

    Parameters
    ----------
    kind : type
        Defined at the top level of a cell, or of the script.

    Raises
    ------
    InvalidInput
        Its source is not there, or it uses a value that cannot be written down, such as an array.
    """
    module = _WrittenModule(_globals_of(kind), kind.__module__)
    module.add(kind.__name__, kind, kind.__name__)
    return module.text()


class _WrittenModule:
    """Collects definitions, each after those that it uses."""

    def __init__(self, around: Mapping[str, Any], home: str) -> None:
        self._around, self._home = around, home
        self._imports: list[str] = []
        self._definitions: list[str] = []
        self._known: set[str] = set()

    def text(self) -> str:
        # Annotations stay text: those of a script may need names that only its type checker knows.
        imports = ["from __future__ import annotations", "", *self._imports]
        return "\n".join([*imports, "", "", "\n\n\n".join(self._definitions), ""])

    def add(self, name: str, value: Any, user: str) -> None:
        """Write what ``user`` knows under a name, unless it is there already."""
        if name in self._known:
            return
        self._known.add(name)
        if isinstance(value, FunctionType | type) and value.__module__ == self._home:
            self._add_definition(name, value)
        elif (imported := _imported(name, value)) is not None:
            self._imports.append(imported)
        elif _is_literal(value):
            self._definitions.append(f"{name} = {value!r}")
        else:
            raise InvalidInput(
                f"{user} uses {name} ({type(value).__name__}), which others do not have: read it in data(), or put "
                "the task into a file"
            )

    def _add_definition(self, name: str, value: FunctionType | type) -> None:
        source = _source_of(value)
        for used in sorted(_globals_in(source) & self._around.keys()):
            self.add(used, self._around[used], name)
        self._definitions.append(source)
        if value.__name__ != name:
            self._definitions.append(f"{name} = {value.__name__}")


def _imported(name: str, value: Any) -> str | None:
    """The statement that imports a value under a name; None where nothing that is imported has it."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__}" + ("" if value.__name__ == name else f" as {name}")
    for attribute in (getattr(value, "__qualname__", None), getattr(value, "__name__", None), name):
        home = getattr(value, "__module__", None)
        if not isinstance(home, str) or not isinstance(attribute, str) or home == "__main__":
            continue
        if getattr(sys.modules.get(home), attribute, None) is value:
            return f"from {home} import {attribute}" + ("" if attribute == name else f" as {name}")
    return None


def _is_literal(value: Any) -> bool:
    try:
        return type(ast.literal_eval(repr(value))) is type(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False


def _globals_of(kind: type) -> Mapping[str, Any]:
    return next((each.__globals__ for each in _functions(kind)), dict[str, Any]())


def _functions(value: FunctionType | type) -> Iterator[FunctionType]:
    """The functions that a definition's own lines hold."""
    if isinstance(value, FunctionType):
        yield value
        return
    yield from (each for each in vars(value).values() if isinstance(each, FunctionType))


def _source_of(value: FunctionType | type) -> str:
    """The lines of a definition at the top level of its cell or script, with its decorators."""
    for function in _functions(value):
        code = function.__code__
        lines = linecache.getlines(code.co_filename)
        for node in _parsed("".join(lines)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == value.__name__:
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                if first <= code.co_firstlineno <= (node.end_lineno or 0):
                    return "".join(lines[first - 1 : node.end_lineno]).rstrip()
    raise InvalidInput(
        f"the source of {value.__name__} is not to be had: define it at the top level of a cell, or in a file"
    )


def _parsed(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError:
        return []


def _globals_in(source: str) -> set[str]:
    """The names that a definition takes from around it, also in its functions; those of modules' own are none."""
    top = symtable.symtable(source, "task", "exec")
    names = {each.get_name() for each in top.get_symbols() if each.is_referenced()} | set(_inside(top))
    return {name for name in names if not name.startswith("__")}


def _inside(scope: symtable.SymbolTable) -> Iterator[str]:
    for each in scope.get_children():
        yield from (symbol.get_name() for symbol in each.get_symbols() if symbol.is_global())
        yield from _inside(each)
