"""Commands that other distributions add: each gives a table of them under the entry point ``fedgrove.commands``."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points

GROUP = "fedgrove.commands"
"""The group of entry points; each names an ``AddedCommands``."""

ELSEWHERE: Mapping[str, str] = dict.fromkeys(("experiment", "attack", "bench"), "fedgrove-lab")
"""Commands that people look for here, and the distribution that adds them."""


@dataclass(frozen=True)
class AddedCommands:
    """What a distribution adds to the command.

    Attributes
    ----------
    title : str
        Above them in the list of commands.
    places : dict
        ``module:function``, or ``module:app``, by the command's name. Modules are imported when a command is called.
    summaries : dict
        What each does, short enough for a line of help.
    """

    title: str
    places: Mapping[str, str]
    summaries: Mapping[str, str]


@cache
def added_commands() -> tuple[AddedCommands, ...]:
    """Those of all installed distributions. To look for them takes some milliseconds."""
    return tuple(each.load() for each in sorted(entry_points(group=GROUP), key=lambda each: each.name))


def how_to_add(name: str) -> str:
    """What to install for a command that is not installed; empty where none is known by this name."""
    distribution = ELSEWHERE.get(name)
    if distribution is None:
        return ""
    return (
        f"fedgrove {name} comes with another package: pip install {distribution} (in a checkout: pip install "
        f"--editable ./{distribution.removeprefix('fedgrove-')})"
    )
