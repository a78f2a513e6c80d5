"""Markdown tables of figures."""

from collections.abc import Sequence


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 2) -> str:
    """A table; the first ``words`` columns are text, the others are numbers."""
    lines = [list(head), [*["---"] * words, *["--:"] * (len(head) - words)], *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
