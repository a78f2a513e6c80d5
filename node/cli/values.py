"""What help and shells show of the values that an option takes."""

from collections.abc import Sequence
from typing import Any

from typer._click import Command
from typer.core import TyperArgument, TyperGroup, TyperOption

from fedgrove.common.errors import InvalidInput


def words(*names: str, other: str = "", metavar: str = "") -> dict[str, Any]:
    """Arguments of ``typer.Option`` for an option that takes one of a few words.

    Parameters
    ----------
    other : str
        What else it takes, in capitals, such as ``URL``.
    metavar : str
        Shown in place of the words, where these are many; the help then names them.
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return {"metavar": metavar or "|".join([*names, *([other] if other else [])]), "autocompletion": complete}


def pairs(option: str, given: Sequence[str] | None, shown: str) -> dict[str, str]:
    """The values of an option that takes KEY=VALUE several times, each key once; ``shown`` is what one looks like."""
    found: dict[str, str] = {}
    for each in given or ():
        key, equals, value = each.partition("=")
        if not (equals and key and value) or key in found:
            raise InvalidInput(f"{option} must be {shown}, each once, not {each!r}")
        found[key] = value
    return found


def name_values(command: Command) -> None:
    """Give each option without a metavar one that says what it takes; an argument is told by its name alone."""
    for each in command.commands.values() if isinstance(command, TyperGroup) else ():
        name_values(each)
    for parameter in command.params:
        if isinstance(parameter, TyperArgument):
            parameter.metavar = parameter.metavar or (parameter.name or "").upper()
            parameter.display_type_rich = lambda ctx: None  # typer would add <str>
        elif (
            isinstance(parameter, TyperOption) and parameter.metavar is None and not parameter.type_descriptor.is_choice
        ):
            kind = parameter.bare_type().removeprefix("list[").removesuffix("]")
            name = parameter.opts[-1].rpartition("-")[2]
            parameter.metavar = _OF_TYPES.get(kind) or _OF_NAMES.get(name) or name.upper()


_OF_TYPES = {"int": "N", "float": "NUMBER", "path": "PATH", "Path": "PATH"}
_OF_NAMES = {
    "webhook": "URL",
    "rpc": "URL",
    "head": "BLOCK:HASH",
    "seeds": "N,N,…",
    "which": "vrf|mailbox",
} | dict.fromkeys(("ledger", "account", "admin", "coordinator"), "ADDRESS")
"""What options of these names take, where they are text."""
