"""The process of a sandbox with its libraries imported, for tests that are not about sandboxes.

Each sandbox imports torch, which takes more than a second of a processor, and hundreds of tests start one. Here its
process is a fork of one that has imported it, and jobs are contained as ``contained`` says, which needs no namespace.
``strict`` cannot be had in these tests; with variables of its own a sandbox starts as it does for everybody.
"""

import atexit
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from fedgrove.node.devnet.forks import ForkServer
from fedgrove.node.methods.training.task_data import PRELOADED
from fedgrove.node.tasks.sandbox import launch, modes, runtime

PROGRAM = "fedgrove.node.tasks.sandbox.warm"


def share(patch: pytest.MonkeyPatch) -> None:
    """Have sandboxes share what they import, where this system can contain jobs like that."""
    if modes.contained_fault() is None:
        patch.setattr(modes, "strict_fault", lambda: "sandboxes of these tests share what they import")
        patch.setattr(launch, "_popen", _forked)


_started = launch._popen


def _forked(command, descriptors, home, environment):
    if PROGRAM not in command or environment:
        return _started(command, descriptors, home, environment)
    (control,) = descriptors
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 - Launched.close closes it
    process = subprocess.Popen(
        _server().command(),
        cwd="/",
        env=runtime.environment(home),
        stdin=control,
        stdout=subprocess.DEVNULL,
        stderr=complaints,
        start_new_session=True,
    )
    return process, complaints


@cache
def _server() -> ForkServer:
    """This process's server, which ends with it."""
    variables = {**runtime.environment(Path("/nonexistent")), "PYTHONDONTWRITEBYTECODE": "1"}
    root = str(Path(__file__).parents[2])
    variables["PYTHONPATH"] = os.pathsep.join([variables["PYTHONPATH"], root]).lstrip(os.pathsep)
    server, owner = ForkServer([PROGRAM, *PRELOADED], variables, "tests.warm.sandbox_process"), os.getpid()
    atexit.register(lambda: server.close() if os.getpid() == owner else None)
    return server
