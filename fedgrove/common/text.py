"""Text as people may see it: what nodes, stores and tasks answered, commands to copy, durations."""

import shlex

_LONGEST = 10**9  # seconds; what blocks say beyond it is no duration


def one_line(text: str, most: int) -> str:
    """The text on one line, without what moves a terminal or cannot be encoded, cut to a number of characters."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * most])
    shown = " ".join(shown.split())
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def command_line(*words: object) -> str:
    """The ``fedgrove`` command with these words; a shell splits it into the same words, whatever is in a path."""
    return shlex.join(["fedgrove", *map(str, words)])


def duration(seconds: float | None) -> str:
    """Seconds for people, by the two largest units: 48 s, 3 min 20 s, 5 h 12 min, 2 d 3 h; a dash for what is none."""
    if seconds is None or not 0 <= seconds < _LONGEST:
        return "–"
    whole = round(seconds)
    for large, unit, small, rest_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= large:
            rest = whole % large // small
            return f"{whole // large} {unit}" + (f" {rest} {rest_unit}" if rest else "")
    return f"{whole} s"


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things; ``many`` is their plural where it is not ``one`` with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
