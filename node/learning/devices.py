"""Device for torch: the processor, with the same bytes on any machine, or a GPU, with those of its kind."""

import os

import torch

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.processor import check_processor, is_pinned
from fedgrove.node.learning.settings import TrainingSettings

DEVICES = ("cpu", "cuda", "auto")


def choose(name: str) -> str:
    """The device to compute on, "cpu" or "cuda", for one of ``DEVICES``; "auto" is CUDA where there is any."""
    if name not in DEVICES:
        raise InvalidInput(f"the device must be one of {', '.join(DEVICES)}, not {name!r}")
    present = torch.cuda.is_available()
    if name == "cuda" and not present:
        raise InvalidInput("torch finds no CUDA device here: choose the device cpu, or install a CUDA build of torch")
    return "cuda" if present and name != "cpu" else "cpu"


def check(settings: TrainingSettings, device: str) -> None:
    """Raise InvalidInput where training as the settings ask cannot be had in this process."""
    check_processor(settings.portable, settings.precision, device)
    if settings.portable and not (is_pinned() and torch.backends.cpu.get_cpu_capability() == "AVX2"):
        raise InvalidInput(
            "portable training needs a process that was started with its kernels pinned, and this one was not: train "
            "in one that fedgrove starts"
        )


def set_up(device: str) -> None:
    """Prepare this process for a device, before its first matrix product there.

    For sums in the same order every time NVIDIA's matrix products ask for a workspace of their own; TensorFloat-32
    would round their factors to ten bits.
    """
    if device == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
