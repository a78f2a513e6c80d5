"""A pytest plugin that looks, for each refusal of the law, for a test that fails without it.

``python -m pytest -p tests.removed_refusals TESTS`` runs each test as it is, and again without each ``raise bad(…)`` of
``node/protocol/law.py`` that it came to and that no test before it was found to need: a test that never came to one
cannot notice that it is gone. ``FEDGROVE_REMOVED`` names the file that gets what was found, as JSON: by the line of the
refusal a test that needs it, or null; ``FEDGROVE_LINES`` leaves all refusals alone but those on these lines.
"""

import ast
import json
import os
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

LAW = "fedgrove.node.protocol.law"
_found: dict[int, str | None] = {}
_reached: list[int] = []
_removed: list[int] = []


def refuses(line: int) -> bool:
    """Whether the refusal on a line is there; asked where it would be raised."""
    _reached.append(line)
    return line not in _removed


class _Removable(ast.NodeTransformer):
    """Puts a question before each refusal."""

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        if not (isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name) and node.exc.func.id == "bad"):
            return node
        _found[node.lineno] = None
        asked = ast.Call(ast.Name("_refuses", ast.Load()), [ast.Constant(node.lineno)], [])
        return ast.If(asked, [node], [])


def refusals(source: str) -> tuple[ast.Module, list[int]]:
    """A module each of whose refusals can be removed, and their lines."""
    _found.clear()
    tree = _Removable().visit(ast.parse(source))
    place = next(at for at, each in enumerate(tree.body) if isinstance(each, ast.ImportFrom))
    tree.body.insert(place, ast.ImportFrom(__name__, [ast.alias("refuses", "_refuses")], 0))
    return ast.fix_missing_locations(tree), sorted(_found)


_as_it_is = SourceFileLoader.get_code


def _get_code(self: SourceFileLoader, fullname: str):
    if fullname != LAW:
        return _as_it_is(self, fullname)
    tree, _ = refusals(Path(self.path).read_text())
    for line in _found.keys() - set(map(int, os.environ.get("FEDGROVE_LINES", "").split())):
        if os.environ.get("FEDGROVE_LINES"):
            del _found[line]
    return compile(tree, self.path, "exec")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """From now on the law is imported with its refusals removable; the first conftest imports it."""
    if "FEDGROVE_REMOVED" in os.environ:
        SourceFileLoader.get_code = _get_code  # type: ignore[method-assign]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run the test as it is, and then without each refusal that is to be tried."""
    _reached.clear()
    for report in _run(item, nextitem):
        item.ihook.pytest_runtest_logreport(report=report)
    for line in sorted(set(_reached)):
        if line in _found and _found[line] is None:
            _removed[:] = [line]
            missed = any(report.failed for report in _run(item, nextitem))
            _removed.clear()
            # a test that cannot be run twice fails with the refusal as well
            if missed and not any(report.failed for report in _run(item, nextitem)):
                _found[line] = item.nodeid
    return True


def _run(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    return runtestprotocol(item, log=False, nextitem=nextitem)


def pytest_sessionfinish() -> None:
    """Write what was found."""
    if "FEDGROVE_REMOVED" in os.environ:
        Path(os.environ["FEDGROVE_REMOVED"]).write_text(json.dumps(_found))
