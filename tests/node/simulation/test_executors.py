"""Where tasks run: processes whose kernels are pinned, and no cluster where they must be."""

import os

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.processor import PINNED
from fedgrove.node.simulation.executors import InlineExecutor, open_executor


@pytest.mark.parametrize(("name", "portable", "pinned"), [("inline", True, "avx2"), ("processes", False, None)])
def test_portable_training_has_processes_whose_kernels_are_pinned(monkeypatch, name, portable, pinned):
    for variable in PINNED:
        monkeypatch.delenv(variable, raising=False)
    with open_executor(name, 1, portable) as (pool, workers):
        assert workers == 1 and not isinstance(pool, InlineExecutor)
        assert pool.submit(os.getenv, "ATEN_CPU_CAPABILITY").result() == pinned


def test_a_cluster_whose_processes_others_started_does_not_train_portably():
    with pytest.raises(InvalidInput, match="choose the executor processes"), open_executor("dask=tcp://x", 0, True):
        pass
