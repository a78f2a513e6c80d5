"""The Python face of the contracts: keys, verifiable randomness, the ledger, and the networks it lives on."""

import sys
from contextlib import suppress

_limit = min(sys.getrecursionlimit(), 1000)
# py_ecc, which web3 and py-evm depend on, raises the limit of recursion to 100,000 on import. Deeply nested JSON, which
# anyone can put into a store, would then overflow the C stack and kill the process instead of raising RecursionError.
with suppress(ImportError):
    import py_ecc  # noqa: F401

sys.setrecursionlimit(_limit)
