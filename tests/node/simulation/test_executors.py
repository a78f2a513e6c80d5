"""Where tasks run: processes whose kernels are pinned, and no cluster where they must be."""

import os
import subprocess
import sys

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.processor import PINNED
from fedgrove.node.simulation.executors import open_executor

# In a process of its own: processes are forked from one that keeps the environment in which the first was wanted.
ASK = """
import os, sys
from fedgrove.node.simulation.executors import open_executor
with open_executor(sys.argv[1], 1, sys.argv[2] == "True") as (pool, workers):
    print(type(pool).__name__, workers, pool.submit(os.getenv, "ATEN_CPU_CAPABILITY").result())
"""


@pytest.mark.parametrize(("name", "portable", "pinned"), [("inline", True, "avx2"), ("processes", False, None)])
def test_portable_training_has_processes_whose_kernels_are_pinned(name, portable, pinned):
    environment = {key: value for key, value in os.environ.items() if key not in PINNED}
    command = [sys.executable, "-c", ASK, name, str(portable)]
    asked = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert asked.stdout == f"ProcessPoolExecutor 1 {pinned}\n", asked.stderr


def test_a_cluster_whose_processes_others_started_does_not_train_portably():
    with pytest.raises(InvalidInput, match="choose the executor processes"), open_executor("dask=tcp://x", 0, True):
        pass
