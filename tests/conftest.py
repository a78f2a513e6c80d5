"""Settings of all tests: hypothesis never judges by the clock, and in CI it tries the same examples every time.

Tests of one file run in one worker, since they share fixtures, unless a test names a group of its own. Groups that take
longest begin first, so that no worker waits for one at the end (with ``--no-loadscope-reorder``).

Temporary files are in memory where there is room: federations sync theirs hundreds of times a round, which on a disk is
three quarters of a test's time. What becomes of files on a full or a torn disk is tested on disks of its own.
"""

import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a script's background; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("ETH_HASH_BACKEND", "pysha3")  # as the core has it; what tests install has a slower one
MEMORY = Path("/dev/shm")
ROOM = 8 << 30  # bytes; a whole run needs less than 2 GiB at once
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

from tests.embedded_evm import choose  # noqa: E402 - when the variables above are set

choose()

TESTS = Path(__file__).parent
# The longest first: those that mostly wait, for blocks, for processes or to kill them, and those that compute.
WAITING = [
    TESTS / name
    for name in (
        *("node/devnet/testnet", "node/cli/test_network.py", "node/roles/faults", "test_docs.py"),
        *("node/devnet/test_demo.py", "deploy/test_two_machines.py"),
        *("node/cli/test_services.py", "node/cli/test_clusters_services.py"),
        *("node/cli/test_task_services.py", "node/cli/test_unlearn_services.py", "node/cli/test_demo.py", "ipfs"),
        *("chain/test_fees.py", "chain/test_endpoints.py", "node/devnet/test_forks.py"),
    )
]
LONG = [
    TESTS / name
    for name in (
        *("contracts", "test_types.py", "node/devnet", "adversary/test_half_empty_committee.py"),
        *("matrix", "node/cli", "node/simulation", "adversary", "node/explorer", "node/methods", "node/roles"),
    )
]
SPREAD_OVER = 0.6
"""The share of the computing groups among which the waiting ones are spread; the rest are computing ones alone."""


# Where tests train tasks without being about how their code is contained.
_TRAINING = ("examples", "fedgrove", "lab", "matrix", "node/cli", "node/devnet", "node/simulation")
SHARED = [TESTS / name for name in _TRAINING]


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
    """Begin what waits between what computes, so that all processors have work from the beginning to the end."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
        groups.setdefault(item.get_closest_marker("xdist_group").args[0], []).append(item)
    by_rank = sorted(groups.values(), key=lambda group: (_rank(group, WAITING), _rank(group, LONG)))
    waiting = [group for group in by_rank if _rank(group, WAITING) < len(WAITING)]
    computing = by_rank[len(waiting) :]
    between = max(1, int(SPREAD_OVER * len(computing) / (len(waiting) or 1)))
    items.clear()
    for number, group in enumerate(computing):
        if number % between == 0 and waiting:
            items.extend(waiting.pop(0))
        items.extend(group)
    items.extend(item for group in waiting for item in group)


def _rank(group: list[pytest.Item], paths: list[Path]) -> int:
    return next((at for at, path in enumerate(paths) if group[0].path.is_relative_to(path)), len(paths))


def pytest_collection_finish():
    """Leave the modules and the thousands of tests out of what garbage is looked for in, hundreds of times."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)  # as the command has it
