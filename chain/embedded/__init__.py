"""A chain in this process or behind a server of its own, by py-evm, and how its blocks are kept in a file."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def recursion_limit_kept() -> Iterator[None]:
    """For an import of py-evm, which raises the limit of recursion (see chain/__init__.py) for calls 1,024 levels deep.

    Our contracts never go deeper than two.
    """
    limit = sys.getrecursionlimit()
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
