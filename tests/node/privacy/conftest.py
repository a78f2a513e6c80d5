"""The system's random bytes, of a seed instead."""

import os

import pytest

from fedgrove.node.protocol import terms
from tests.node.privacy.canaries import Lots


@pytest.fixture
def lots(monkeypatch) -> Lots:
    found = Lots()
    monkeypatch.setattr(os, "urandom", found)
    monkeypatch.setattr(terms, "LEAST_RATED", 3)
    monkeypatch.setattr(
        "fedgrove.node.methods.training.client_level.masked_bytes", lambda *arguments: arguments[3].tobytes()
    )
    return found
