"""What a processor must be able to do, and the environment that pins kernels for processes that train portably."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base import processor
from fedgrove.node.base.processor import PINNED, PinnedContext, check_processor, features_in, is_pinned

OLD, NEW = frozenset(("sse4_1",)), frozenset(("avx2", "fma", "avx512_bf16"))


@pytest.mark.parametrize(
    ("features", "portable", "precision", "device", "sentence"),
    [
        (OLD, True, "fp32", "cpu", "portable = true needs an x86-64 processor with AVX2 and FMA"),
        (frozenset(("avx2",)), True, "fp32", "cpu", "with AVX2 and FMA"),
        (frozenset(("avx2", "fma")), False, "bf16", "cpu", 'precision = "bf16" needs a processor with AVX512_BF16'),
        (NEW, True, "fp32", "cuda", "portable = true is for processors: choose the device cpu"),
        (NEW, False, "bf16", "cuda", 'precision = "bf16" is for processors'),
    ],
)
def test_a_machine_that_cannot_train_as_asked_is_refused(monkeypatch, features, portable, precision, device, sentence):
    monkeypatch.setattr(processor, "_features", lambda: features)
    with pytest.raises(InvalidInput, match=sentence):
        check_processor(portable, precision, device)


@pytest.mark.parametrize(
    ("features", "portable", "precision", "device"),
    [(OLD, False, "fp32", "cuda"), (NEW, True, "fp32", "cpu"), (frozenset(("amx_bf16",)), False, "bf16", "cpu")],
)
def test_a_machine_that_can_is_not(monkeypatch, features, portable, precision, device):
    monkeypatch.setattr(processor, "_features", lambda: features)
    check_processor(portable, precision, device)


def test_nothing_is_known_of_processors_other_than_x86_64(monkeypatch):
    monkeypatch.setattr(processor.platform, "machine", lambda: "aarch64")
    processor._features.cache_clear()
    try:
        with pytest.raises(InvalidInput):
            check_processor(True, "fp32")
    finally:
        processor._features.cache_clear()


def test_features_are_the_flags_of_the_first_processor():
    lines = ["processor\t: 0", "flags\t\t: fpu avx2 fma", "processor\t: 1", "flags\t\t: sse"]
    assert features_in(lines) == {"fpu", "avx2", "fma"}
    assert features_in(["Features: neon"]) == frozenset()


def _environment() -> dict[str, str]:
    return dict(os.environ)


@pytest.mark.parametrize("portable", [True, False])
def test_only_processes_that_train_portably_are_pinned_whatever_this_ones_environment_is(monkeypatch, portable):
    outside = {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}
    for name in PINNED:
        monkeypatch.delenv(name, raising=False)
    for name, value in outside.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    with ProcessPoolExecutor(1, mp_context=PinnedContext() if portable else get_context("spawn")) as pool:
        inside = pool.submit(_environment).result()
    assert is_pinned(inside) is portable
    assert portable or outside.items() <= inside.items()
    assert dict(os.environ) == before and not is_pinned()
