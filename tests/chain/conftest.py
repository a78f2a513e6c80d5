"""Chains for the tests: an embedded one for each test, one anvil for each file."""

import pytest
from federations import found
from fedgrove.chain.networks import embedded
from nodes import anvil_or_skip


@pytest.fixture
def federation():
    with embedded() as network:
        yield found(network)


@pytest.fixture(scope="module")
def anvil_network():
    with anvil_or_skip() as network:
        yield network
