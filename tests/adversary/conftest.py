"""The kept run that several attackers begin from."""

from tests.node.conftest import run

__all__ = ["run"]
