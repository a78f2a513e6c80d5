"""CSV for spreadsheets, which take some texts for formulas and run them."""

import csv
from collections.abc import Iterable, Sequence
from io import StringIO

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A heading and rows as CSV; a text that a spreadsheet would take for a formula gets an apostrophe before it."""
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_cell(name) for name in columns])
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value) else value


def _is_number(text: str) -> bool:
    """Whether a spreadsheet takes a text for a number, as -1, the name of a class: it runs nothing."""
    try:
        float(text)
    except ValueError:
        return len(text) == 1  # a sign alone
    return text.isascii() and text.isprintable()
