"""Chains for the tests: an embedded one for each test, one anvil for each file."""

import os

import pytest
from federations import found

from chain.errors import ConnectionFailed
from chain.networks import anvil, embedded, find_anvil


@pytest.fixture
def federation():
    with embedded() as network:
        yield found(network)


@pytest.fixture(scope="module")
def anvil_network():
    try:
        find_anvil()
    except ConnectionFailed as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    with anvil() as network:
        yield network
