"""Settings of all tests: hypothesis never judges by the clock, and in CI it tries the same examples every time.

Tests of one file run in one worker, since they share fixtures, unless a test names a group of its own. Groups that take
longest begin first, so that no worker waits for one at the end (with ``--no-loadscope-reorder``).

Temporary files are in memory where there is room: federations sync theirs hundreds of times a round, which on a disk is
three quarters of a test's time. What becomes of files on a full or a torn disk is tested on disks of its own.
"""

import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

os.environ.setdefault("ETH_HASH_BACKEND", "pysha3")  # as the core has it; what tests install has a slower one
MEMORY = Path("/dev/shm")
ROOM = 8 << 30  # bytes; a whole run needs less than 2 GiB at once
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

TESTS = Path(__file__).parent
# The longest first.
LONG = [
    TESTS / name
    for name in (
        *("node/devnet/testnet", "node/cli/test_network.py", "node/roles/faults", "contracts", "test_docs.py"),
        "test_types.py",
        *("node/devnet", "deploy/test_two_machines.py", "adversary/test_half_empty_committee.py"),
        *("node/cli", "node/lab/simulation", "adversary", "node/explorer", "node/methods", "node/roles"),
    )
]


# Where tests train tasks without being about how their code is contained.
SHARED = [TESTS / name for name in ("examples", "fedgrove", "node/cli", "node/devnet", "node/lab")]


@pytest.fixture(scope="module", autouse=True)
def shared_sandboxes(request):
    """Sandboxes share what they import."""
    with pytest.MonkeyPatch.context() as patch:
        if any(request.path.is_relative_to(path) for path in SHARED):
            from tests.warm.sandboxes import share

            share(patch)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
    items.sort(key=lambda item: next((at for at, path in enumerate(LONG) if item.path.is_relative_to(path)), len(LONG)))


def pytest_collection_finish():
    """Leave the modules and the thousands of tests out of what garbage is looked for in, hundreds of times."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)  # as the command has it
