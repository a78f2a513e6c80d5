"""Portable training: the same bytes at each level of instructions, in processes that begin under any environment."""

import hashlib
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.processor import PINNED, PinnedContext, check_processor, is_pinned
from fedgrove.node.base.tensors import dump
from fedgrove.node.learning.models import initial_tensors
from fedgrove.node.learning.networks import train
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings
from fedgrove.node.learning.strategies import make_strategy

# What a processor without AVX-512, and one without AVX2, would choose: torch's kernels, oneDNN's and MKL's.
LEVELS = {
    "this processor's": {},
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "SSE4": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
}
PLAIN = {"momentum": 0.0, "weight_decay": 0.0}
WORK = (
    ("small-cnn", "fedaom", {}),  # convolutions, softmax, norms, attributions
    ("small-cnn", "fedcurv", {}),
    ("paper-cnn", "moon", {}),
    ("geyer-mlp", "fedavg", PLAIN),  # products without automatic differentiation
)


def trained(model: str, strategy: str, changes: dict[str, float], portable: bool) -> str:
    """Digest of a client's update after a round on random images."""
    shape = (1, 8, 8) if model.startswith("small") else (1, 28, 28)
    rng, method = np.random.default_rng(0), make_strategy(strategy)
    samples, shared = (Samples(rng.random((n, *shape), np.float32), np.arange(n) % 10) for n in (40, 20))
    start = initial_tensors(model, shape, 10, 0)
    start |= method.initial_extras(start)
    settings = TrainingSettings(epochs=2, batch_size=16, portable=portable, **changes)
    place = {"number": 1, "rounds": 5, "client": 1, "seed": 0, "state": initial_tensors(model, shape, 10, 1)}
    update = train(ModelSpec(model, shape, 10), start, samples, shared, method, settings, **place)
    return hashlib.sha256(dump(update.tensors)).hexdigest()


def all_trained(portable: bool) -> list[str]:
    return [trained(*each, portable) for each in WORK]


@pytest.fixture(scope="module")
def digests() -> dict[tuple[str, bool], list[str]]:
    """Of the work's updates, by level and by whether they are portable."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for name in PINNED:
            patch.delenv(name, raising=False)
        for level, variables in LEVELS.items():
            for name, value in variables.items():
                patch.setenv(name, value)
            for portable in (True, False):
                with ProcessPoolExecutor(1, mp_context=PinnedContext() if portable else get_context("spawn")) as pool:
                    found[level, portable] = pool.submit(all_trained, portable).result()
    return found


def first_models() -> list[str]:
    """Digests of fresh models."""
    kinds = (("small-cnn", (1, 8, 8)), ("paper-cnn", (1, 28, 28)), ("geyer-mlp", (1, 28, 28)))
    return [hashlib.sha256(dump(initial_tensors(name, shape, 10, 3))).hexdigest() for name, shape in kinds]


def test_first_models_are_the_same_at_each_level_also_where_training_is_not_portable(monkeypatch):
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(first_models).result() == first_models()


def _suited(precision: str, portable: bool) -> bool:
    try:
        check_processor(portable, precision)
    except InvalidInput:
        return False
    return True


needs_avx2 = pytest.mark.skipif(not _suited("fp32", True), reason="a processor with AVX2")


@needs_avx2
def test_portable_training_gives_the_same_bytes_at_each_level(digests):
    assert digests["this processor's", True] == digests["AVX2", True] == digests["SSE4", True]


@needs_avx2
def test_other_training_gives_other_bytes_at_each_level(digests):
    for avx2, sse in zip(digests["AVX2", False], digests["SSE4", False], strict=True):
        assert avx2 != sse


def test_a_process_whose_kernels_are_not_pinned_trains_nothing_portably(monkeypatch):
    monkeypatch.delenv("MKL_CBWR", raising=False)
    assert not is_pinned()
    with pytest.raises(InvalidInput, match="portable"):
        trained(*WORK[0], portable=True)


def test_variables_that_come_too_late_do_not_count(monkeypatch):
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "AVX512")
    for name, value in PINNED.items():
        monkeypatch.setenv(name, value)
    assert is_pinned(os.environ)
    with pytest.raises(InvalidInput, match="portable"):
        trained(*WORK[0], portable=True)
