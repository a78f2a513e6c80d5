"""Markdown tables of figures."""

from collections.abc import Mapping, Sequence
from typing import Any

ABSENT = "–"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1, notes: int = 0) -> str:
    """A table; the first ``words`` and the last ``notes`` columns are text, the others are numbers."""
    ruler = [*["---"] * words, *["--:"] * (len(head) - words - notes), *["---"] * notes]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ruler, *rows)) + "\n"


def with_deviation(spread: Mapping[str, Any] | None, scale: float = 1.0, digits: int = 1) -> str:
    """``mean ± deviation`` of a ``measures.Spread``, scaled (100 gives percent)."""
    if spread is None:
        return ABSENT
    mean = f"{scale * spread['mean']:.{digits}f}"
    return mean if spread["deviation"] is None else f"{mean} ± {scale * spread['deviation']:.{digits}f}"
