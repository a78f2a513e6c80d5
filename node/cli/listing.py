"""The commands: what each does, where it is and which extra it needs; listed without importing any of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from typer._click import Command
from typer._click.shell_completion import CompletionItem
from typer.core import TyperGroup

ENTRY_POINTS = "fedgrove.commands"
"""The group of entry points by which other distributions add commands; each names a ``CommandGroup``."""

ELSEWHERE: Mapping[str, str] = dict.fromkeys(("experiment", "attack", "bench"), "fedgrove-lab")
"""Commands that people look for here, and the distribution that adds them."""


@dataclass(frozen=True)
class ListedCommand:
    """A command.

    Attributes
    ----------
    summary : str
        What it does, short enough for a line of help.
    place : str
        ``module:function``, or ``module:app``; the module is imported when the command is called.
    extra : str
        The extra without which it does not run; others need one for single options at most.
    """

    summary: str
    place: str
    extra: str = ""


@dataclass(frozen=True)
class CommandGroup:
    """Commands under a title in the list of commands."""

    title: str
    commands: Mapping[str, ListedCommand]


def _own(summary: str, place: str, extra: str = "") -> ListedCommand:
    return ListedCommand(summary, f"fedgrove.node.cli.{place}", extra)


GROUPS = (
    CommandGroup(
        "Try it on this machine",
        {
            "demo": _own("Run a whole federation on this machine and audit it.", "demo:demo", "devnet"),
            "simulate": _own(
                "Train many clients on this machine's cores or a cluster.", "simulate:simulate", "simulation"
            ),
            "network": _own("Run a testnet on this machine, each member a process.", "network:app", "devnet"),
            "doctor": _own("Check that everything needed is installed and reachable.", "doctor:doctor"),
        },
    ),
    CommandGroup(
        "Read, check and use a result",
        {
            "audit": _own("Recompute a training history and name the first bad record.", "audit:app"),
            "explorer": _own("Serve pages that show and check training histories.", "explorer:explorer"),
            "history": _own("Write a training history as tables.", "history:app"),
            "model": _own("Take a model out of a training history.", "history:model_app"),
            "predict": _own("Predict with a federation's model, and say how good it is.", "predict:predict"),
        },
    ),
    CommandGroup(
        "Found and run a federation",
        {
            "estimate": _own("Estimate what a federation will cost.", "estimate:estimate"),
            "privacy": _own("Plan and count client-level differential privacy.", "privacy:app", "privacy"),
            "deploy": _own("Deploy a federation's contracts.", "membership:deploy"),
            "approve": _own("Approve a member, where membership is by approval.", "membership:approve"),
            "coordinator": _own("Run a federation's coordinator, or a stand-by.", "services:coordinator"),
            "status": _own("Show the round, who has acted and whom it waits for.", "status:status"),
        },
    ),
    CommandGroup(
        "Take part in one",
        {
            "keys": _own("Create, show, back up, restore and rotate a member's keys.", "keys:app"),
            "task": _own("Make a task, check it, pack, show, approve or fetch it.", "task:app"),
            "register": _own("Register your keys with the federation.", "membership:register"),
            "client": _own("Run a client of a federation.", "services:client"),
        },
    ),
    CommandGroup(
        "Clusters of points that can be forgotten",
        {
            "kmeans": _own("Cluster the clients' points with all sums under masks.", "kmeans:kmeans", "kmeans"),
            "unlearn": _own("Have the federation forget a client's points, or a client.", "unlearn:unlearn"),
        },
    ),
    CommandGroup(
        "The shell",
        {"completion": _own("Print a script that completes commands in a shell.", "completion:completion")},
    ),
)
"""fedgrove's own commands, by what people want."""

COMMANDS = {name: each for group in GROUPS for name, each in group.commands.items()}
"""The same by their names."""


@cache
def added_groups() -> tuple[CommandGroup, ...]:
    """Those that other distributions add. To look for them takes some milliseconds."""
    return tuple(each.load() for each in sorted(entry_points(group=ENTRY_POINTS), key=lambda each: each.name))


def all_commands() -> dict[str, ListedCommand]:
    """All commands by name; none that is added takes the place of one that is there already."""
    return {name: each for group in added_groups() for name, each in group.commands.items()} | COMMANDS


def how_to_add(name: str) -> str:
    """What to install for a command that is not installed; empty where none is known by this name."""
    distribution = ELSEWHERE.get(name)
    if distribution is None:
        return ""
    return (
        f"fedgrove {name} comes with another package: pip install {distribution} (in a checkout: pip install "
        f"--editable ./{distribution.removeprefix('fedgrove-')})"
    )


class ListedCommands(TyperGroup):
    """A group whose commands take a second to import, listed by their summaries."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list into a help text."""
        longest = max(map(len, all_commands()))
        for group in (*GROUPS, *added_groups()):
            with formatter.section(group.title):
                formatter.write_dl([(name.ljust(longest), each.summary) for name, each in group.commands.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        """Commands, and options of the group, that begin as a word does."""
        found = {name: each.summary for name, each in all_commands().items() if name.startswith(incomplete)}
        return [CompletionItem(name, help=text) for name, text in found.items()] + Command.shell_complete(
            self, ctx, incomplete
        )
