"""The ``fedgrove`` command."""


def run() -> None:
    """Run the command.

    The commands are imported here, not above: a process of a pool imports its parent's main script again, and would
    load all of them before it could work.
    """
    from node.cli.main import run as run_command

    run_command()
