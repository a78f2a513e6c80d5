"""What this distribution adds to the ``fedgrove`` command."""

from fedgrove.node.cli.listing import CommandGroup, ListedCommand

COMMANDS = CommandGroup(
    "Research",
    {
        "experiment": ListedCommand("Run one of the paper's experiments.", "fedgrove_lab.cli.experiment:experiment"),
        "attack": ListedCommand("Attack clients' uploads on this machine.", "fedgrove_lab.cli.attack:attack"),
        "bench": ListedCommand("Measure fedgrove on this machine.", "fedgrove_lab.cli.bench:app"),
    },
)
