"""Cells of a notebook, run in one namespace as a notebook does."""

import linecache
from itertools import count

_numbers = count(1)


def namespace() -> dict:
    return {"__name__": "__main__"}


def run_cell(source: str, names: dict) -> None:
    """Run a cell, whose lines are kept where tracebacks and ``fedgrove.demo`` look for them."""
    place = f"<cell {next(_numbers)}>"
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    exec(compile(source, place, "exec"), names)
