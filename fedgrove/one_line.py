"""What others say, as it may be shown: nodes, stores, tasks."""


def one_line(text: str, most: int) -> str:
    """The text on one line, without what moves a terminal or cannot be encoded, cut to a number of characters."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * most])
    shown = " ".join(shown.split())
    return shown if len(shown) <= most else shown[: most - 1] + "…"
