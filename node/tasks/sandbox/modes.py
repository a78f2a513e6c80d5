"""Choose how a task's code is contained on this system: ``[network] sandbox``."""

import functools
import os
import shutil
from pathlib import Path

from fedgrove.node.tasks.sandbox import kernel, landlock
from fedgrove.node.tasks.sandbox.faults import SandboxUnavailable
from fedgrove.node.tasks.sandbox.launch import launch, python
from fedgrove.node.tasks.sandbox.settings import Mode, Visible

AUTO = "auto"


def choose(wanted: str = AUTO) -> Mode:
    """Return the mode to use: the one that is wanted, or with ``auto`` the stronger one that this system has.

    Raises
    ------
    SandboxUnavailable
        This system has not what is wanted, or nothing has this name; ``off`` is never chosen unasked.
    """
    if wanted not in (AUTO, *Mode):
        raise SandboxUnavailable(f"sandbox must be {AUTO}, {', '.join(Mode)}, not {wanted!r}")
    if wanted == Mode.OFF:
        return Mode.OFF
    faults = {Mode.STRICT: strict_fault, Mode.CONTAINED: contained_fault}
    candidates = list(faults) if wanted == AUTO else [Mode(wanted)]
    found = {mode: faults[mode]() for mode in candidates}
    for mode, fault in found.items():
        if fault is None:
            return mode
    reasons = "; ".join(f"{mode}: {fault}" for mode, fault in found.items())
    raise SandboxUnavailable(
        f"this system cannot contain a task's code ({reasons}); install bubblewrap, or accept that the code can do "
        'whatever you can, with sandbox = "off" in [network]'
    )


def advice() -> str | None:
    """What a member who runs as root should be told; None for any other."""
    if os.getuid() != 0:
        return None
    return "fedgrove runs as root: use another account, so that a hole in the sandbox is not one in the machine"


@functools.cache
def strict_fault() -> str | None:
    """Why ``strict`` cannot be had; None where it can. Starts bubblewrap once."""
    if not kernel.has_filters():
        return "this kernel or processor has no system call filter that fedgrove knows"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    try:
        launched = launch(Mode.STRICT, Visible(Path(__file__)), python("-S", "-c", ""))
        launched.process.wait()
    except (SandboxUnavailable, OSError) as fault:
        return f"bubblewrap does not start here ({fault})"
    fault = f"bubblewrap does not start here ({launched.complaint()})" if launched.process.returncode else None
    launched.close()
    return fault


@functools.cache
def contained_fault() -> str | None:
    """Why ``contained`` cannot be had; None where it can."""
    if not kernel.has_filters():
        return "this kernel or processor has no system call filter that fedgrove knows"
    if not landlock.version():
        return "this kernel has no Landlock"
    return None
