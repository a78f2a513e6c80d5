"""The rows of a table's file, one after the other: CSV, npz, Parquet or xlsx, bounded before much is read."""

import csv
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from fedgrove.node.base.arrays import InvalidArrays, read_arrays
from fedgrove.node.learning.tables.formats import TableFormat, delimiter_of, encoding_of, shown
from fedgrove.node.learning.tables.settings import composed

MAX_FILE_BYTES = 4 << 30
MAX_ROWS = 20_000_000
MAX_WORKBOOK_BYTES = 256 << 20
"""Of a workbook, unpacked: all its texts are in memory."""
MAX_COLUMNS = 16_384
"""As many as a sheet can have."""
_PARQUET_BATCH = 4096
_MAX_HEADER, _HEADER_LINES = 1 << 20, 100
_PLAIN = TableFormat()


class InvalidTable(ValueError):
    """A table cannot be read as the terms say; the message is one sentence with file, line or row, and column."""


@dataclass(frozen=True)
class Row:
    """The cells of a row, in the order of the columns asked for, and its place for people."""

    place: str
    cells: Sequence[object]


def rows_of(path: Path, columns: Sequence[str], form: TableFormat = _PLAIN, separator: str = ",") -> Iterator[Row]:
    """The rows of a file, with the cells of ``columns`` only.

    Parameters
    ----------
    form : TableFormat
        How the file writes a table.
    separator : str
        The delimiter that is tried first.

    Raises
    ------
    InvalidTable
        Another kind of file, one that is too large or damaged, or one without these columns.
    """
    _check(path)
    for count, row in enumerate(_READERS[path.suffix.lower()](path, columns, form, separator)):
        if count == MAX_ROWS:
            raise InvalidTable(f"{path.name} has more than {MAX_ROWS} rows")
        yield row


def names_of(path: Path, form: TableFormat = _PLAIN) -> list[str]:
    """The names of a file's columns in form NFC; InvalidTable as ``rows_of``."""
    kind = path.suffix.lower()
    _check(path)
    if kind == ".npz":
        with _npz(path) as arrays:
            return [composed(name) for name in arrays]
    if kind == ".parquet":
        with _parquet(path) as file:
            return [composed(name) for name in file.schema_arrow.names]
    if kind == ".xlsx":
        with _sheet(path, form) as rows:
            return [composed(name) for name in _sheet_header(path, rows)]
    with _csv(path, form, _delimiter(path, form, (), ",")) as lines:
        return [composed(name) for name in _header(path, lines)]


def _check(path: Path) -> None:
    if path.suffix.lower() not in _READERS:
        raise InvalidTable(f"{path.name} must end in {', '.join(sorted(_READERS))}")
    try:
        size = path.stat().st_size
    except OSError as fault:
        raise InvalidTable(f"cannot read {path.name}: {fault.strerror}") from None
    if size > MAX_FILE_BYTES:
        raise InvalidTable(f"{path.name} is larger than {MAX_FILE_BYTES >> 30} GiB")


def _from_csv(path: Path, columns: Sequence[str], form: TableFormat, separator: str) -> Iterator[Row]:
    with _csv(path, form, _delimiter(path, form, columns, separator)) as lines:
        header = _header(path, lines)
        chosen = _indexes(path, header, columns)
        for cells in lines:
            if not cells:
                continue  # an empty line
            if len(cells) != len(header):
                found = f"{len(cells)} cells, and the header names {len(header)} columns"
                raise InvalidTable(f"{path.name}, line {lines.line_num} has {found}")
            yield Row(f"line {lines.line_num}", [cells[index] for index in chosen])


def _from_npz(path: Path, columns: Sequence[str], *_: object) -> Iterator[Row]:
    """Arrays by the names of the columns, one value a row."""
    with _npz(path) as arrays:
        names = list(arrays)
    chosen = _arrays(path, [names[index] for index in _indexes(path, names, columns)])
    if len({array.shape for array in chosen}) != 1 or any(array.ndim != 1 for array in chosen):
        raise InvalidTable(f"{path.name} must hold an array of one value a row for each column, all of one length")
    for number, cells in enumerate(zip(*chosen, strict=True), 1):
        yield Row(f"row {number}", [cell.item() for cell in cells])


def _arrays(path: Path, columns: Sequence[str]) -> list[np.ndarray]:
    """The arrays of these names, none of which claims more memory than the file has content for."""
    try:
        held = read_arrays(path, columns, MAX_ROWS)
    except OSError as fault:
        raise InvalidTable(f"cannot read {path.name}: {fault.strerror}") from None
    except InvalidArrays as fault:
        raise InvalidTable(f"{path.name} {fault}") from None
    return [held[name] for name in columns]


def _from_parquet(path: Path, columns: Sequence[str], *_: object) -> Iterator[Row]:
    start = 1
    with _parquet(path) as file:
        names = file.schema_arrow.names
        found = [names[index] for index in _indexes(path, names, columns)]
        for batch in file.iter_batches(_PARQUET_BATCH, columns=found, use_threads=False):
            chosen = [batch.column(name).to_pylist() for name in found]
            rows = enumerate(zip(*chosen, strict=True), start)
            yield from (Row(f"row {number}", cells) for number, cells in rows)
            start += len(batch)


def _from_xlsx(path: Path, columns: Sequence[str], form: TableFormat, _: str) -> Iterator[Row]:
    with _sheet(path, form) as rows:
        header = _sheet_header(path, rows)
        chosen = _indexes(path, header, columns)
        for number, cells in enumerate(rows, 2):
            if any(cell is not None for cell in cells):
                padded = [*cells, *[None] * (len(header) - len(cells))]
                yield Row(f"row {number}", [padded[index] for index in chosen])


def _delimiter(path: Path, form: TableFormat, columns: Sequence[str], separator: str) -> str:
    """The delimiter of a CSV file; InvalidTable where the stated one is wrong and another one is right."""

    def lines() -> Iterator[str]:
        with _text(path, form) as file:
            for _ in range(_HEADER_LINES):  # names in quotes may have several
                yield file.readline(_MAX_HEADER)

    with _readable(path, lambda: 0):
        found, other = delimiter_of(lines, form, columns, separator)
    if other:
        raise InvalidTable(
            f"{path.name} has not all columns of the terms with the delimiter {shown(found)!r}, but it has with "
            f"{shown(other)!r}: state that one (--table-format delimiter={shown(other)!r}), or none"
        )
    return found


@contextmanager
def _csv(path: Path, form: TableFormat, delimiter: str) -> Iterator[Any]:
    with _text(path, form) as file:
        lines = csv.reader(file, delimiter=delimiter, strict=True)
        with _readable(path, lambda: lines.line_num):
            yield lines


@contextmanager
def _text(path: Path, form: TableFormat) -> Iterator[TextIO]:
    with path.open("rb") as file:
        encoding = encoding_of(file.read(3), form)
    with path.open(newline="", encoding=encoding) as text:
        yield text


@contextmanager
def _readable(path: Path, line: Callable[[], int]) -> Iterator[None]:
    try:
        yield
    except csv.Error as fault:
        raise InvalidTable(f"{path.name}, line {line()}: {fault}") from None
    except UnicodeError as fault:
        told = getattr(fault, "encoding", "its encoding").upper()
        raise InvalidTable(
            f"{path.name} is not {told} after line {line()}: save it as UTF-8, or state its encoding (--table-format "
            "encoding=cp1252 for files of Windows)"
        ) from None


@contextmanager
def _sheet(path: Path, form: TableFormat) -> Iterator[Iterator[tuple]]:
    """The rows of a workbook's sheet; formulas have the values that were saved with them."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        advice = 'pip install "fedgrove[tables]", or give CSV'
        raise InvalidTable(f"{path.name} is a workbook, and openpyxl is not installed: {advice}") from None
    try:
        with zipfile.ZipFile(path) as file:
            _check_unpacked(path, sum(each.file_size for each in file.infolist()), MAX_WORKBOOK_BYTES)
        book = load_workbook(path, read_only=True, data_only=True, keep_links=False)
    except InvalidTable:
        raise
    except Exception as fault:  # openpyxl raises whatever its parsers do
        raise InvalidTable(f"{path.name} is not a workbook that can be read ({type(fault).__name__})") from None
    try:
        names = book.sheetnames
        if form.sheet not in names and (form.sheet or len(names) != 1):
            known = ", ".join(names[:20])
            raise InvalidTable(f"{path.name} has the sheets {known}: state one (--table-format sheet=…)")
        yield _sheet_rows(path, book[form.sheet or names[0]])
    finally:
        book.close()


def _sheet_rows(path: Path, sheet: Any) -> Iterator[tuple]:
    """Rows of cells, at most ``MAX_COLUMNS`` wide."""
    try:
        yield from sheet.iter_rows(values_only=True, max_col=MAX_COLUMNS)
    except InvalidTable:
        raise
    except Exception as fault:  # as above
        raise InvalidTable(f"{path.name} is not a workbook that can be read ({type(fault).__name__})") from None


def _sheet_header(path: Path, rows: Iterator[tuple]) -> list[str]:
    return _header(path, iter([["" if cell is None else str(cell) for cell in next(rows, ())]]))


@contextmanager
def _npz(path: Path) -> Iterator[Any]:
    try:
        with zipfile.ZipFile(path) as file:
            _check_unpacked(path, sum(each.file_size for each in file.infolist()))
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    except InvalidTable:
        raise
    except (zipfile.BadZipFile, ValueError):
        raise InvalidTable(f"{path.name} is not an npz file of plain arrays") from None


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        advice = "install it, or give CSV or npz"
        raise InvalidTable(f"{path.name} is Parquet, and pyarrow is not installed: {advice}") from None
    try:
        file = parquet.ParquetFile(path)
        groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
        _check_unpacked(path, sum(group.total_byte_size for group in groups))
        yield file
    except (ArrowException, OSError) as fault:
        raise InvalidTable(f"{path.name} is not a Parquet file that can be read: {fault}") from None


def _check_unpacked(path: Path, size: int, most: int = MAX_FILE_BYTES) -> None:
    if size > most:
        raise InvalidTable(f"{path.name} unpacks to more than {most >> 20} MiB")


def _header(path: Path, lines: Iterator[list[str]]) -> list[str]:
    header = [name.strip() for name in next(lines, [])]
    if not header:
        raise InvalidTable(f"{path.name} is empty: its first line must name the columns")
    return header


def _indexes(path: Path, header: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Where the columns of these names stand; a file must have each once."""
    places: dict[str, list[int]] = {}
    for index, name in enumerate(header):
        places.setdefault(composed(name), []).append(index)
    found = {name: places.get(composed(name), []) for name in columns}
    for name, indexes in found.items():
        if len(indexes) != 1:
            raise InvalidTable(f"{path.name} has {len(indexes) or 'no'} columns {name!r}, and the terms ask for one")
    return [index for (index,) in found.values()]


_READERS: dict[str, Callable[[Path, Sequence[str], TableFormat, str], Iterator[Row]]] = {
    ".csv": _from_csv,
    ".npz": _from_npz,
    ".parquet": _from_parquet,
    ".xlsx": _from_xlsx,
}
