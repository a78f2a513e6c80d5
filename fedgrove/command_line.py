"""Commands that people copy from what fedgrove prints."""

import shlex


def command_line(*words: object) -> str:
    """The ``fedgrove`` command with these words; a shell splits it into the same words, whatever is in a path."""
    return shlex.join(["fedgrove", *map(str, words)])
