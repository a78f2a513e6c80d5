"""Settings of all tests: hypothesis never judges by the clock, and in CI it tries the same examples every time.

``make test`` runs two jobs side by side: tests that compute, one for each processor, and tests that mostly wait
(``--job``). Tests of one file run in one worker, since they share fixtures, unless a test names a group of its own.
Groups that take longest begin first, so that no worker waits for one at the end (with ``--no-loadscope-reorder``).

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
# Tests that mostly wait, for processes, blocks, anvil, hardhat, Kubo or Chromium. The longest first.
WAITING = [
    TESTS / name
    for name in (
        *("node/devnet/testnet", "node/cli/test_network.py", "node/roles/faults", "test_docs.py"),
        *("node/devnet/test_demo.py", "deploy/test_two_machines.py", "contracts"),
        *("node/cli/test_services.py", "node/cli/test_clusters_services.py", "node/cli/test_hung_and_headless.py"),
        *("node/cli/test_task_services.py", "node/cli/test_unlearn_services.py", "node/cli/test_demo.py", "ipfs"),
        *(
            "chain/network",
            "node/cli/test_hardhat_commands.py",
            "node/devnet/test_forks.py",
            "adversary/test_web_page.py",
        ),
    )
]
# Of those that compute, which take longest, and begin first.
LONG = [
    TESTS / name
    for name in (
        *("test_types.py", "node/devnet", "adversary/test_half_empty_committee.py"),
        *("matrix", "node/cli", "node/simulation", "adversary", "node/explorer", "node/methods", "node/roles"),
    )
]


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


def pytest_addoption(parser):
    parser.addoption("--job", choices=("computing", "waiting"), help="those tests only that compute, or mostly wait")


def pytest_ignore_collect(collection_path, config):
    """Collect the tests of one job only; the others' modules are not even imported."""
    job = config.getoption("job")
    if job and collection_path.suffix == ".py" and _is_waiting(collection_path) != (job == "waiting"):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Keep the tests of a file in one worker, and begin with the files that take longest."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
    # The sort is stable, so a group that is spread over files keeps its order, and goes where its first test is.
    ranks: dict[str, tuple[int, int]] = {}
    for item in items:
        ranks.setdefault(item.get_closest_marker("xdist_group").args[0], (_rank(item, WAITING), _rank(item, LONG)))
    items.sort(key=lambda item: ranks[item.get_closest_marker("xdist_group").args[0]])


def _is_waiting(path: Path) -> bool:
    return any(path.is_relative_to(each) for each in WAITING)


def _rank(item: pytest.Item, paths: list[Path]) -> int:
    return next((at for at, path in enumerate(paths) if item.path.is_relative_to(path)), len(paths))


def pytest_collection_finish():
    """Leave the modules and the thousands of tests out of what garbage is looked for in, hundreds of times."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)  # as the command has it
