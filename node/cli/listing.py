"""The list of commands, for help and shells, without importing any of them."""

from typing import Any

from typer._click import Command
from typer._click.shell_completion import CompletionItem
from typer.core import TyperGroup

SUMMARIES = {
    "demo": "Run a whole federation on this machine and audit it.",
    "audit": "Recompute a training history and name the first bad record.",
    "history": "Write a training history as tables.",
    "model": "Take a model out of a training history.",
    "predict": "Predict with a federation's model, and say how good it is.",
    "keys": "Create, show, back up, restore and rotate a member's keys.",
    "deploy": "Deploy a federation's contracts.",
    "register": "Register your keys with the federation.",
    "approve": "Approve a member, where membership is by approval.",
    "status": "Show the round, who has acted and whom it waits for.",
    "client": "Run a client of a federation.",
    "coordinator": "Run a federation's coordinator, or a stand-by.",
    "task": "Make a task, check it, pack, show, approve or fetch it.",
    "network": "Run a testnet on this machine, each member a process.",
    "explorer": "Serve pages that show and check training histories.",
    "simulate": "Train many clients on this machine's cores or a cluster.",
    "experiment": "Run one of the paper's experiments.",
    "kmeans": "Cluster the clients' points with all sums under masks.",
    "unlearn": "Have the federation forget a client's points, or a client.",
    "privacy": "Plan and count client-level differential privacy.",
    "attack": "Attack clients' uploads on this machine.",
    "bench": "Measure fedgrove on this machine.",
    "doctor": "Check that everything needed is installed and reachable.",
    "estimate": "Estimate what a federation will cost.",
    "completion": "Print a script that completes commands in a shell.",
}
"""What each command does, short enough for a line of help."""


class ListedCommands(TyperGroup):
    """A group whose commands take a second to import, listed by ``SUMMARIES``."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list into a help text."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        """Commands, and options of the group, that begin as a word does."""
        found = [CompletionItem(name, help=text) for name, text in SUMMARIES.items() if name.startswith(incomplete)]
        return found + Command.shell_complete(self, ctx, incomplete)
