"""The ``fedgrove`` command."""

import sys


def run() -> None:
    """Run the command.

    The commands are imported here, not above: a process of a pool imports its parent's main script again, and would
    load all of them before it could work.
    """
    try:
        from fedgrove.node.cli.main import run as run_command
    except KeyboardInterrupt:
        sys.exit(130)
    run_command()
