"""The ``fedgrove`` command with its libraries imported, for all commands that this process tests.

A command of its own process stays where a test is about the process: how it starts, which modules it imports, which
environment torch reads when it is imported. README.md and the guide for two machines are run like that as well.
"""

import atexit
import os
from functools import cache
from pathlib import Path

from fedgrove.node.cli.listing import all_commands
from fedgrove.node.devnet.forks import ForkServer

# What commands import when they run.
LATER = (
    *("fedgrove.chain.embedded.evm", "fedgrove.node.devnet.demo", "sklearn.datasets"),
    *("fedgrove.node.simulation.task_folder", "fedgrove.node.roles.client", "fedgrove.node.roles.coordinator"),
    "fedgrove.node.audit.auditor",
)


def command() -> list[str]:
    """The words that start ``fedgrove``, to be followed by its arguments."""
    return _server().command()


def install(folder: Path) -> Path:
    """Write ``fedgrove`` as a program into a folder, which is returned, for a shell's PATH."""
    program = folder / "fedgrove"
    words = " ".join(f"'{word}'" for word in command())
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    return folder


@cache
def _server() -> ForkServer:
    """This process's server, which ends with it."""
    modules = ["tests.warm.evm", *(each.place.split(":")[0] for each in all_commands().values()), *LATER]
    root = str(Path(__file__).parents[2])
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    server, owner = ForkServer(modules, variables), os.getpid()
    atexit.register(lambda: server.close() if os.getpid() == owner else None)
    return server
