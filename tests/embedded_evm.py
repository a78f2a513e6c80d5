"""Which EVM runs the embedded chain of tests: pyrevm where it has a wheel, and py-evm, as for everybody, elsewhere.

It is chosen before anything else is imported (``tests/conftest.py``), so tests, and the product's modules under test,
find it as ``networks.embedded``. A test that is about the embedded chain itself takes ``py_evm``, and
``FEDGROVE_TESTS_EVM=py-evm`` runs all tests on that one.
"""

import os
from pathlib import Path

from fedgrove.chain.face import networks

py_evm = networks.embedded
"""What ``networks.embedded`` is outside of tests."""


def _revm(state_file: Path | None = None) -> networks.Network:
    from tests.revm_network import RevmNetwork

    return RevmNetwork() if state_file is None else py_evm(state_file)


def choose() -> None:
    """Have ``networks.embedded`` be the faster one, where there is one."""
    try:
        import pyrevm  # noqa: F401
    except ImportError:  # Python 3.13
        return
    if os.environ.get("FEDGROVE_TESTS_EVM") != "py-evm":
        networks.embedded = _revm
