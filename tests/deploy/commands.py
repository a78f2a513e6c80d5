"""Command lines of fedgrove in files that other tools read, checked by fedgrove's own parser."""

import re
import shlex
from collections.abc import Sequence

from fedgrove.node.cli.main import command_line


def check(arguments: Sequence[str]) -> list[str]:
    """Parse arguments as fedgrove does, without running them; the command's names.

    Raises
    ------
    Exception
        The parser's own, for a command or an option that does not exist, or one that is missing.
    """
    command, names, rest = command_line, [], list(arguments)
    while (children := getattr(command, "commands", None)) and rest and rest[0] in children:
        names.append(rest.pop(0))
        command = children[names[-1]]
    assert names, f"no command of fedgrove's in {arguments}"
    assert not getattr(command, "commands", None) or names == ["audit"], f"{arguments} names no command"
    context = command.context_class(command, info_name=names[-1])
    given, left, _ = command.make_parser(context).parse_args(rest)
    missing = [each.name for each in command.params if each.required and given.get(each.name) is None]
    assert not left and not missing, f"{arguments}: {left} are too many, {missing} are missing"
    return names


def in_text(text: str) -> list[list[str]]:
    """The arguments of every call of fedgrove's in a page or a script."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [shlex.split(each) for each in re.findall(r"^\s*(?:\S*/)?fedgrove ([a-z][^|;&>\n]*)", joined, re.MULTILINE)]
