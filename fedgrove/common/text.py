"""Text as people may see it: what nodes, stores and tasks answered, and commands to copy."""

import shlex


def one_line(text: str, most: int) -> str:
    """The text on one line, without what moves a terminal or cannot be encoded, cut to a number of characters."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * most])
    shown = " ".join(shown.split())
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def command_line(*words: object) -> str:
    """The ``fedgrove`` command with these words; a shell splits it into the same words, whatever is in a path."""
    return shlex.join(["fedgrove", *map(str, words)])
