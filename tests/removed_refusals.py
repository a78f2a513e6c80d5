"""A pytest plugin that looks, for each refusal of the law, for a test that fails without it.

``python -m pytest -p tests.removed_refusals TESTS`` runs each test as it is, and again without each ``raise bad(…)`` of
``LAW`` that it came to and that no test before it was found to need: a test that never came to one cannot notice that
it is gone. ``FEDGROVE_REMOVED`` names the file that gets what was found, as JSON: by the place of the refusal
(MODULE:LINE) a test that needs it, or null; ``FEDGROVE_PLACES`` leaves all refusals alone but those.
"""

import ast
import json
import os
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

LAW = tuple(f"fedgrove.node.protocol.{name}" for name in ("law", "judgements", "bounded_rounds"))
_found: dict[str, str | None] = {}
_reached: list[str] = []
_removed: list[str] = []


def refuses(place: str) -> bool:
    """Whether the refusal at a place is there; asked where it would be raised."""
    _reached.append(place)
    return place not in _removed


class _Removable(ast.NodeTransformer):
    """Puts a question before each refusal of a module."""

    def __init__(self, module: str) -> None:
        self._module, self.places = module, list[str]()

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        if not (isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name) and node.exc.func.id == "bad"):
            return node
        self.places.append(f"{self._module}:{node.lineno}")
        asked = ast.Call(ast.Name("_refuses", ast.Load()), [ast.Constant(self.places[-1])], [])
        return ast.If(asked, [node], [])


def refusals(path: Path) -> tuple[ast.Module, list[str]]:
    """A module each of whose refusals can be removed, and their places."""
    removable = _Removable(path.stem)
    tree = removable.visit(ast.parse(path.read_text()))
    first = next(at for at, each in enumerate(tree.body) if isinstance(each, ast.ImportFrom))
    tree.body.insert(first, ast.ImportFrom(__name__, [ast.alias("refuses", "_refuses")], 0))
    return ast.fix_missing_locations(tree), removable.places


_as_it_is = SourceFileLoader.get_code


def _get_code(self: SourceFileLoader, fullname: str):
    if fullname not in LAW:
        return _as_it_is(self, fullname)
    tree, places = refusals(Path(self.path))
    some = os.environ.get("FEDGROVE_PLACES", "").split() or places
    _found.update(dict.fromkeys(place for place in places if place in some))
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
    for place in sorted(set(_reached)):
        if place in _found and _found[place] is None:
            _removed[:] = [place]
            missed = any(report.failed for report in _run(item, nextitem))
            _removed.clear()
            # a test that cannot be run twice fails with the refusal as well
            if missed and not any(report.failed for report in _run(item, nextitem)):
                _found[place] = item.nodeid
    return True


def _run(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    return runtestprotocol(item, log=False, nextitem=nextitem)


def pytest_sessionfinish() -> None:
    """Write what was found."""
    if "FEDGROVE_REMOVED" in os.environ:
        Path(os.environ["FEDGROVE_REMOVED"]).write_text(json.dumps(_found))
