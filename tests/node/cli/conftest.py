"""Commands run in this process, with keystores that are cheap to open."""

from functools import partial

import pytest

from fedgrove.chain.crypto import keys


@pytest.fixture(autouse=True, scope="session")
def cheap_keystores():
    """Scrypt at its standard cost takes a second; what is tested here does not depend on it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("save", "backup", "restore"):
            patch.setattr(f"fedgrove.node.cli.keys.{name}", partial(getattr(keys, name), cost=1 << 12))
        yield
