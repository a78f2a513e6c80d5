"""What this distribution adds to the ``fedgrove`` command."""

from fedgrove.node.cli.added import AddedCommands

COMMANDS = AddedCommands(
    title="Research",
    places={
        "experiment": "fedgrove_lab.cli.experiment:experiment",
        "attack": "fedgrove_lab.cli.attack:attack",
        "bench": "fedgrove_lab.cli.bench:app",
    },
    summaries={
        "experiment": "Run one of the paper's experiments.",
        "attack": "Attack clients' uploads on this machine.",
        "bench": "Measure fedgrove on this machine.",
    },
)
