"""Fixtures of runs, shared with the tests of the packages below."""

from tests.node.conftest import run

__all__ = ["run"]
