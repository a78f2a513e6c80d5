"""The list of commands, for help and shells, without importing any of them."""

from collections.abc import Mapping
from typing import Any

from typer._click import Command
from typer._click.shell_completion import CompletionItem
from typer.core import TyperGroup

from fedgrove.node.cli.added import added_commands

GROUPS = {
    "Try it on this machine": {
        "demo": "Run a whole federation on this machine and audit it.",
        "simulate": "Train many clients on this machine's cores or a cluster.",
        "network": "Run a testnet on this machine, each member a process.",
        "doctor": "Check that everything needed is installed and reachable.",
    },
    "Read, check and use a result": {
        "audit": "Recompute a training history and name the first bad record.",
        "explorer": "Serve pages that show and check training histories.",
        "history": "Write a training history as tables.",
        "model": "Take a model out of a training history.",
        "predict": "Predict with a federation's model, and say how good it is.",
    },
    "Found and run a federation": {
        "estimate": "Estimate what a federation will cost.",
        "privacy": "Plan and count client-level differential privacy.",
        "deploy": "Deploy a federation's contracts.",
        "approve": "Approve a member, where membership is by approval.",
        "coordinator": "Run a federation's coordinator, or a stand-by.",
        "status": "Show the round, who has acted and whom it waits for.",
    },
    "Take part in one": {
        "keys": "Create, show, back up, restore and rotate a member's keys.",
        "task": "Make a task, check it, pack, show, approve or fetch it.",
        "register": "Register your keys with the federation.",
        "client": "Run a client of a federation.",
    },
    "Clusters of points that can be forgotten": {
        "kmeans": "Cluster the clients' points with all sums under masks.",
        "unlearn": "Have the federation forget a client's points, or a client.",
    },
    "The shell": {
        "completion": "Print a script that completes commands in a shell.",
    },
}
"""What each command does, short enough for a line of help, by what people want."""


def groups() -> dict[str, Mapping[str, str]]:
    """``GROUPS``, and those of the distributions that add commands."""
    return {**GROUPS, **{added.title: added.summaries for added in added_commands()}}


def summaries() -> dict[str, str]:
    """What each command does, by its name."""
    return {name: text for group in groups().values() for name, text in group.items()}


class ListedCommands(TyperGroup):
    """A group whose commands take a second to import, listed by ``groups``."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list into a help text."""
        longest = max(map(len, summaries()))
        for title, commands in groups().items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), text) for name, text in commands.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        """Commands, and options of the group, that begin as a word does."""
        found = [CompletionItem(name, help=text) for name, text in summaries().items() if name.startswith(incomplete)]
        return found + Command.shell_complete(self, ctx, incomplete)
