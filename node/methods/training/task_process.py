"""The process that runs a task's code, with the packages imported beforehand that take each job seconds."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from fedgrove.node.base.processor import PINNED
from fedgrove.node.methods.training.task_data import PRELOADED, TaskProcess
from fedgrove.node.tasks.lock import LOCK_NAME, PackageLock
from fedgrove.node.tasks.sandbox.limits import JobLimits
from fedgrove.node.tasks.sandbox.settings import Mode, Visible
from fedgrove.node.tasks.sandbox.worker import Worker

# What a task that imports a package most likely imports of it. Only these: the process that imports them is less
# contained than a job, so that a bundle must not say which modules they are.
_SLOW = {
    "pandas": ("pandas",),
    "peft": ("peft",),
    "scikit-learn": ("sklearn",),
    "torchvision": ("torchvision",),
    "transformers": ("transformers", "transformers.modeling_utils", "transformers.models.auto.modeling_auto"),
}


def open_process(
    mode: Mode,
    visible: Visible,
    limits: JobLimits | None = None,
    private: Iterable[Path] = (),
    portable: bool = False,
) -> TaskProcess:
    """A process for jobs of the task in ``visible.task``, packed or empty; the other parameters are ``Worker``'s.

    ``portable`` is that of the terms: whether the kernels of the jobs are pinned.
    """
    preload = (*PRELOADED, *slow_imports(visible.task))
    return TaskProcess(Worker(mode, visible, limits, preload, private, PINNED if portable else {}))


def slow_imports(folder: Path) -> tuple[str, ...]:
    """Modules of the well-known packages that a task's lock names, if installed; a shipped task has no lock."""
    lock = folder / LOCK_NAME
    if not lock.exists():
        return ()
    named = PackageLock.from_bytes(lock.read_bytes()).packages
    modules = [module for package, known in _SLOW.items() if package in named for module in known]
    return tuple(module for module in modules if find_spec(module.partition(".")[0]))
