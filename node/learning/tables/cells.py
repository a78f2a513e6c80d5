"""One cell of a table as a number, a category or a missing value; strict, as terms are agreed for everybody."""

import re
from collections.abc import Mapping
from datetime import date, datetime

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.learning.tables.settings import Column, composed

MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "?"})
"""Texts that stand for a missing value, where the terms do not list them as categories."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+", re.ASCII)
_STATE = "--table-format "
_MAX_DIGITS = 100
_LARGEST = 3e38  # what float32 holds
_SHOWN = 40


class MissingCell(InvalidInput):
    """A cell holds no value."""


def number(cell: object, column: Column, form: TableFormat = TableFormat()) -> float:  # noqa: B008 (frozen)
    """The cell's number, within the column's range; of a date the year, with the share of it that has passed.

    Raises
    ------
    InvalidInput, MissingCell
    """
    value = _year(cell, form) if column.kind == "date" else _value(cell, form)
    if column.range and not column.range[0] <= value <= column.range[1]:
        least, largest = column.range
        raise InvalidInput(f"{shown(cell)} is outside the range {least:g} to {largest:g} that the terms state")
    return value


def category(cell: object, places: Mapping[str, int]) -> int:
    """The place of the cell's category among those that the terms list, whose keys are in form NFC.

    Raises
    ------
    InvalidInput, MissingCell
    """
    text = text_of(cell)
    found = places.get(text)
    if found is None:  # a column of whole numbers with gaps is often written as 1.0, 2.0
        found = places.get(text.removesuffix(".0"))
    if found is not None:
        return found
    if text in MISSING:
        raise MissingCell
    raise InvalidInput(f"{shown(cell)} is none of the categories that the terms list")


def is_number(text: str) -> bool:
    """Whether a text is a number in plain notation, with a point, that float32 holds."""
    return len(text) <= _MAX_DIGITS and _NUMBER.fullmatch(text) is not None and abs(float(text)) < _LARGEST


def text_of(cell: object) -> str:
    """The cell as it stands in a CSV file, in form NFC and without blanks around it."""
    return "" if cell is None else composed(str(cell).strip())


def shown(cell: object) -> str:
    """A cell, fit for a sentence."""
    text = repr(text_of(cell))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def year_of(day: date) -> float:
    """A date as a number: its year, and the share of it that has passed."""
    begin, end = date(day.year, 1, 1).toordinal(), date(day.year, 12, 31).toordinal() + 1
    return day.year + (day.toordinal() - begin) / (end - begin)


def _year(cell: object, form: TableFormat) -> float:
    if isinstance(cell, datetime):
        return year_of(cell.date())
    if isinstance(cell, date):
        return year_of(cell)
    text = text_of(cell)
    if text in MISSING:
        raise MissingCell
    try:
        return year_of(form.read_date(text))
    except ValueError:
        how = form.dates or "%Y-%m-%d"
        advice = f"state how this file writes dates ({_STATE}dates=…)"
        raise InvalidInput(f"{shown(cell)} is not a date as {how}: {advice}") from None


def _value(cell: object, form: TableFormat) -> float:
    if isinstance(cell, bool):
        return float(cell)
    text = text_of(cell)
    if text in MISSING:
        raise MissingCell
    if form.decimal == "," and isinstance(cell, str):
        if "." in text:
            raise InvalidInput(f"{shown(cell)} has a point, and this file's numbers have a decimal comma")
        text = text.replace(",", ".", 1)
    elif _COMMA.fullmatch(text):
        raise InvalidInput(f"{shown(cell)} seems to have a decimal comma: state it ({_STATE}decimal=comma)")
    if not is_number(text):
        raise InvalidInput(f"{shown(cell)} is not a number")
    return float(text)
