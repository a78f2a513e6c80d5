"""Processors that train: which are suited, and kernels that give the same bytes on all of them (no torch here).

torch, oneDNN, MKL, OpenBLAS and NumPy choose kernels by the processor's instruction set, and kernels of another width
add in another order. ``PINNED`` holds them to AVX2 and FMA, and MKL, which chooses by the processor's maker as well, to
the one branch that it has for all. The libraries read it when they are loaded, or at their first call, so it must be
in the environment before a process imports them.
"""

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path

from fedgrove.common.errors import InvalidInput

PINNED: Mapping[str, str] = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ONEDNN_DEFAULT_FPMATH_MODE": "STRICT",
    "MKL_CBWR": "COMPATIBLE",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4,AVX512_ICL,AVX512_SPR",
}
"""The environment of a process that trains portably."""

_PORTABLE = frozenset(("avx2", "fma"))
_BF16 = frozenset(("avx512_bf16", "amx_bf16"))


def check_processor(portable: bool, precision: str, device: str = "cpu") -> None:
    """Raise InvalidInput unless this machine can train portably, or with this precision, where asked to."""
    if (portable or precision == "bf16") and device != "cpu":
        asked = "portable = true" if portable else 'precision = "bf16"'
        raise InvalidInput(f"training with {asked} is for processors: choose the device cpu")
    if portable and not _features() >= _PORTABLE:
        raise InvalidInput(
            "training with portable = true needs an x86-64 processor with AVX2 and FMA: use another machine"
        )
    if precision == "bf16" and not _BF16 & _features():
        raise InvalidInput(
            'training with precision = "bf16" needs a processor with AVX512_BF16 or AMX: use another machine, or agree '
            "on fp32"
        )


def is_pinned(environment: Mapping[str, str] | None = None) -> bool:
    """Whether an environment, by default this process's, pins all kernels."""
    given = os.environ if environment is None else environment
    return all(given.get(name) == value for name, value in PINNED.items())


def pin_process() -> None:
    """Pin the kernels of this process, which has loaded none yet, and of all that it starts."""
    os.environ.update(PINNED)


class PinnedContext(SpawnContext):
    """Spawns processes whose kernels are pinned, whatever the environment of this one is."""

    class Process(SpawnProcess):
        """A process that is started in the pinned environment."""

        def start(self) -> None:
            with _environment(PINNED):
                super().start()


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Inside, this process's environment has the changes."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@cache
def _features() -> frozenset[str]:
    """What the processor can do, as Linux names it; nothing is known of machines other than x86-64."""
    if platform.machine() != "x86_64":
        return frozenset()
    try:
        return features_in(Path("/proc/cpuinfo").read_text().splitlines())
    except OSError:
        return frozenset()


def features_in(lines: Iterable[str]) -> frozenset[str]:
    """The flags of the first processor in /proc/cpuinfo."""
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())
