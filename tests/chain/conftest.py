"""Chains for the tests: an embedded one for each test, one anvil for each file."""

import pytest

from fedgrove.chain.face.networks import embedded
from tests.chain.federations import found
from tests.chain.nodes import anvil_or_skip


@pytest.fixture
def federation():
    with embedded() as network:
        yield found(network)


@pytest.fixture(scope="module")
def anvil_network():
    with anvil_or_skip() as network:
        yield network
