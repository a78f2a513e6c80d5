"""How a member's own file writes a table: its delimiter, numbers, dates and encoding. None of it is in the terms."""

import codecs
import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Annotated, Any, Literal

from msgspec import Meta

from fedgrove.common.settings import Settings
from fedgrove.node.base.strict_tables import build
from fedgrove.node.learning.tables.settings import composed

DELIMITERS = (",", ";", "\t", "|")
"""Those that are looked for, in this order, where none is stated."""
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_WORDS = {"delimiter": {"tab": "\t", "\\t": "\t"}, "decimal": {"point": ".", "comma": ","}}
_LONGEST = 100


@dataclass(frozen=True)
class TableFormat(Settings):
    """How a file writes a table.

    Attributes
    ----------
    delimiter : str
        One character between the cells of a CSV file, or ``tab``; empty: the one with which the header has the columns
        that are asked for.
    decimal : str
        ``.`` or ``,``: what separates a number's fraction.
    encoding : str
        Of a CSV file, as Python names it, such as ``cp1252``; empty: UTF-8, or UTF-16 if the file says so.
    dates : str
        How dates are written, in the letters of ``strftime``, such as ``%d.%m.%Y``; empty: as in 2026-11-30.
    sheet : str
        Name of the sheet of a workbook; empty: its only one.
    """

    delimiter: Annotated[str, Meta(pattern=r'\A([^\r\n"])?\Z', description="one character, such as ; or tab")] = ""
    decimal: Literal[".", ","] = "."
    encoding: str = ""
    dates: str = ""
    sheet: Annotated[str, Meta(max_length=_LONGEST, description=f"a name of at most {_LONGEST} characters")] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = self.delimiter != "," or self.decimal != ","
        self.require(fine, "decimal", "a point where the delimiter is a comma")
        self.require(_is_encoding(self.encoding), "encoding", "one that Python knows")
        fine = len(self.dates) <= _LONGEST and (not self.dates or "%" in self.dates)
        self.require(fine, "dates", "a format such as %d.%m.%Y")

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "TableFormat":
        """The format that a table of options states; InvalidConfig, which names the key, where it is none."""
        values = {key: _WORDS.get(key, {}).get(str(value), value) for key, value in table.items()}
        return build(cls, values, "table")

    def to_table(self) -> dict[str, str]:
        return asdict(self)

    def read_date(self, text: str) -> date:
        """A date as this file writes it; ValueError for anything else."""
        from datetime import datetime

        return datetime.strptime(text, self.dates).date() if self.dates else date.fromisoformat(text)


def encoding_of(first: bytes, form: TableFormat) -> str:
    """The encoding of a CSV file that begins with these bytes."""
    if form.encoding:
        return form.encoding
    return next((name for mark, name in _MARKS.items() if first.startswith(mark)), "utf-8")


def delimiter_of(
    line: Callable[[], Iterable[str]], form: TableFormat, columns: Sequence[str], first: str
) -> tuple[str, str]:
    """The delimiter to read with, and another one with which the header would have all columns, or empty.

    Parameters
    ----------
    line : callable
        Returns the lines of the file anew.
    columns : sequence of str
        Those that are asked for; without any, the delimiter that gives the most columns is taken.
    first : str
        The delimiter that is tried first.
    """
    wanted = {composed(name) for name in columns}
    headers = {each: {composed(name.strip()) for name in _header(line(), each)} for each in (first, *DELIMITERS)}
    fitting = [each for each, header in headers.items() if wanted and wanted <= header]
    if form.delimiter:
        header = {composed(name.strip()) for name in _header(line(), form.delimiter)}
        other = "" if wanted <= header else next(iter(fitting), "")
        return form.delimiter, other
    if fitting:
        return fitting[0], ""
    return max(headers, key=lambda each: (len(wanted & headers[each]), len(headers[each]))), ""


def shown(delimiter: str) -> str:
    """A delimiter as people write it."""
    return "tab" if delimiter == "\t" else delimiter


def _header(lines: Iterable[str], delimiter: str) -> list[str]:
    try:
        return next(csv.reader(iter(lines), delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _is_encoding(name: str) -> bool:
    if not name:
        return True
    try:
        return len(name) <= _LONGEST and codecs.lookup(name)._is_text_encoding
    except (LookupError, ValueError):
        return False
