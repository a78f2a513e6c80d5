"""The rows of a table's file, one after the other: CSV, npz, Parquet or xlsx, bounded before much is read."""

import csv
import io
import stat
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.archives import ArchiveFile
from fedgrove.node.base.arrays import names_in_npz, read_arrays
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.tables.formats import TableFormat, delimiter_of, encoding_of, shown
from fedgrove.node.learning.tables.settings import composed

MAX_FILE_BYTES = 4 << 30
MAX_ROWS = 20_000_000
MAX_WORKBOOK_BYTES = 256 << 20
"""Of a workbook, unpacked: all its texts are in memory."""
MAX_COLUMNS = 16_384
"""As many as a sheet can have."""
MAX_SHEET_ROWS = 1 << 20
"""As many as a sheet can have; a few bytes can name a row that is much further down."""
MAX_ROW = 4 << 20
"""Characters of a row of a CSV file, which may have several lines."""
MAX_CELL = 1 << 17
"""Characters of a cell; as many as Python's reader of CSV takes."""
_PARQUET_BATCH = 4096
_MAX_FOOTER = 16 << 20  # bytes
_HEADER_LINES = 100
_PLAIN = TableFormat()


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
    DatasetError
        Another kind of file, one that is too large or damaged, or one without these columns.
    """
    with _opened(path, columns, form, separator) as table:
        for count, row in enumerate(table.rows(_indexes(path, table.names, columns))):
            if count == MAX_ROWS:
                raise DatasetError(f"{path.name} has more than {MAX_ROWS} rows")
            yield row


def names_of(path: Path, form: TableFormat = _PLAIN) -> list[str]:
    """The names of a file's columns in form NFC; DatasetError as ``rows_of``."""
    with _opened(path, (), form, ",") as table:
        return [composed(name) for name in table.names]


@dataclass(frozen=True)
class _Table:
    """The names of a file's columns, and what reads the rows: the cells of the columns at these indexes."""

    names: Sequence[str]
    rows: Callable[[Sequence[int]], Iterator[Row]]


def _opened(path: Path, columns: Sequence[str], form: TableFormat, separator: str) -> AbstractContextManager[_Table]:
    """A file of any of the kinds; ``columns`` are those that are asked for."""
    try:
        status = path.stat()
    except OSError as fault:
        raise DatasetError(f"cannot read {path.name}: {fault.strerror}") from None
    if stat.S_ISDIR(status.st_mode):
        raise DatasetError(f"{path.name} is a folder: give one file, which ends in {', '.join(sorted(_KINDS))}")
    if path.suffix.lower() not in _KINDS:
        raise DatasetError(f"{path.name} must end in {', '.join(sorted(_KINDS))}")
    if not stat.S_ISREG(status.st_mode):  # to open a pipe, or to read all of a device, takes for ever
        raise DatasetError(f"{path.name} is not a regular file")
    if status.st_size > MAX_FILE_BYTES:
        raise DatasetError(f"{path.name} is larger than {MAX_FILE_BYTES >> 30} GiB")
    return _KINDS[path.suffix.lower()](path, columns, form, separator)


@contextmanager
def _csv(path: Path, columns: Sequence[str], form: TableFormat, separator: str) -> Iterator[_Table]:
    delimiter = _delimiter(path, form, columns, separator)
    with _text(path, form) as file:
        lines = _Rows(file, delimiter)
        with _readable(path, lambda: lines.line_num):
            header = _header(path, lines)

            def rows(chosen: Sequence[int]) -> Iterator[Row]:
                for cells in filter(None, lines):  # without empty lines
                    if len(cells) != len(header):
                        found = f"{len(cells)} cells, and the header names {len(header)} columns"
                        raise DatasetError(f"{path.name}, line {lines.line_num} has {found}")
                    yield Row(f"line {lines.line_num}", [cells[index] for index in chosen])

            yield _Table(header, rows)


@contextmanager
def _npz(path: Path, *_: object) -> Iterator[_Table]:
    """Arrays by the names of the columns, one value a row; none claims more memory than the file has content for."""
    try:
        names = names_in_npz(path)

        def rows(chosen: Sequence[int]) -> Iterator[Row]:
            wanted = [names[index] for index in chosen]
            held = read_arrays(path, wanted, MAX_ROWS)
            arrays = [held[name] for name in wanted]
            if len({array.shape for array in arrays}) != 1 or any(array.ndim != 1 for array in arrays):
                raise DatasetError(f"{path.name} must hold an array of one value a row for each column, of one length")
            for number, cells in enumerate(zip(*arrays, strict=True), 1):
                yield Row(f"row {number}", [cell.item() for cell in cells])

        yield _Table(names, rows)
    except OSError as fault:
        raise DatasetError(f"cannot read {path.name}: {fault.strerror}") from None
    except InvalidContent as fault:
        raise DatasetError(f"{path.name} {fault}") from None


def _cells(path: Path, name: str, column: Any) -> list[object]:
    """The cells of a column's part; texts are in a dictionary, as one that is long may stand in every row."""
    from pyarrow import DictionaryArray, compute, types

    if isinstance(column, DictionaryArray):
        column.validate(full=True)  # nobody else checks that its indices lie in the dictionary
        values = _cells(path, name, column.dictionary)
        return [None if index is None else values[index] for index in column.indices.to_pylist()]
    kind = column.type
    if types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        lengths = compute.call_function("binary_length", [column])
        if (compute.call_function("max", [lengths]).as_py() or 0) > MAX_CELL:
            raise DatasetError(f"{path.name}, column {name} has a cell of more than {MAX_CELL} bytes")
    elif not (types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind)):
        raise DatasetError(f"{path.name}, column {name} holds {kind}, and cells are numbers, texts or dates")
    return column.to_pylist()


@contextmanager
def _xlsx(path: Path, columns: Sequence[str], form: TableFormat, _: str) -> Iterator[_Table]:
    with _sheet(path, form) as sheet:
        header = _header(path, iter([["" if cell is None else str(cell) for cell in next(sheet, ())]]))

        def rows(chosen: Sequence[int]) -> Iterator[Row]:
            for number, cells in enumerate(sheet, 2):
                if any(cell is not None for cell in cells):
                    padded = [*cells, *[None] * (len(header) - len(cells))]
                    yield Row(f"row {number}", [padded[index] for index in chosen])

        yield _Table(header, rows)


def _delimiter(path: Path, form: TableFormat, columns: Sequence[str], separator: str) -> str:
    """The delimiter of a CSV file; DatasetError where the stated one is wrong and another one is right."""

    def lines() -> Iterator[str]:
        with _text(path, form) as file:
            for _ in range(_HEADER_LINES):  # names in quotes may have several
                yield file.readline(MAX_ROW)

    with _readable(path, lambda: 0):
        found, other = delimiter_of(lines, form, columns, separator)
    if other:
        raise DatasetError(
            f"{path.name} has not all columns of the terms with the delimiter {shown(found)!r}, but it has with "
            f"{shown(other)!r}: state that one (--table-format delimiter={shown(other)!r}), or none"
        )
    return found


class _Rows:
    """The rows of a CSV file, each of at most ``MAX_ROW`` characters."""

    def __init__(self, text: TextIO, delimiter: str) -> None:
        self._text, self._left = text, MAX_ROW
        self._rows = csv.reader(self._lines(), delimiter=delimiter, strict=True)

    @property
    def line_num(self) -> int:
        return self._rows.line_num

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        self._left = MAX_ROW
        return next(self._rows)

    def _lines(self) -> Iterator[str]:
        while line := self._text.readline(self._left + 1):
            self._left -= len(line)
            if self._left < 0:
                raise csv.Error(f"a row has more than {MAX_ROW} characters")
            yield line


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
        raise DatasetError(f"{path.name}, line {line()}: {fault}") from None
    except UnicodeError as fault:
        encoding = getattr(fault, "encoding", "its encoding").upper()
        place = f" after line {line()}" if line() else ""
        raise DatasetError(
            f"{path.name} is not {encoding}{place}: save it as UTF-8, or state its encoding (--table-format "
            "encoding=cp1252 for files of Windows)"
        ) from None


@contextmanager
def _sheet(path: Path, form: TableFormat) -> Iterator[Iterator[tuple]]:
    """The rows of a workbook's sheet; formulas have the values that were saved with them."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        advice = 'pip install "fedgrove[tables]", or give CSV'
        raise DatasetError(f"{path.name} is a workbook, and openpyxl is not installed: {advice}") from None
    try:
        with ArchiveFile(path) as file, zipfile.ZipFile(file) as archive:
            _check_unpacked(path, sum(each.file_size for each in archive.infolist()), MAX_WORKBOOK_BYTES)
        book = load_workbook(path, read_only=True, data_only=True, keep_links=False)
    except DatasetError:
        raise
    except Exception as fault:  # openpyxl raises whatever its parsers do
        raise DatasetError(f"{path.name} is not a workbook that can be read ({type(fault).__name__})") from None
    try:
        names = book.sheetnames
        if form.sheet not in names and (form.sheet or len(names) != 1):
            known = ", ".join(names[:20])
            raise DatasetError(f"{path.name} has the sheets {known}: state one (--table-format sheet=…)")
        yield _sheet_rows(path, book[form.sheet or names[0]])
    finally:
        book.close()


def _sheet_rows(path: Path, sheet: Any) -> Iterator[tuple]:
    """Rows of cells, as wide as they are, whatever size the sheet states; rows that it skips are empty."""
    try:
        sheet.reset_dimensions()
        for count, row in enumerate(sheet.iter_rows(values_only=True)):
            if count == MAX_SHEET_ROWS or len(row) > MAX_COLUMNS:
                most = f"{MAX_SHEET_ROWS} rows and {MAX_COLUMNS} columns"
                raise DatasetError(f"{path.name} has cells beyond the {most} that a sheet can have")
            yield row
    except DatasetError:
        raise
    except Exception as fault:  # as above
        raise DatasetError(f"{path.name} is not a workbook that can be read ({type(fault).__name__})") from None


@contextmanager
def _parquet(path: Path, *_: object) -> Iterator[_Table]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        advice = "install it, or give CSV or npz"
        raise DatasetError(f"{path.name} is Parquet, and pyarrow is not installed: {advice}") from None
    try:
        _check_footer(path)
        with parquet.ParquetFile(path) as read:
            named = [read.schema.column(index) for index in range(len(read.schema))]
        texts = [each.path for each in named if each.physical_type == "BYTE_ARRAY"]
        file = parquet.ParquetFile(path, read_dictionary=texts)
        groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
        _check_unpacked(path, sum(group.total_byte_size for group in groups))

        def rows(chosen: Sequence[int]) -> Iterator[Row]:
            wanted, start = [names[index] for index in chosen], 1
            for batch in file.iter_batches(_PARQUET_BATCH, columns=wanted, use_threads=False):
                cells = [_cells(path, name, batch.column(name)) for name in wanted]
                yield from (Row(f"row {number}", row) for number, row in enumerate(zip(*cells, strict=True), start))
                start += len(batch)

        with file:
            names = file.schema_arrow.names
            yield _Table(names, rows)
    except (ArrowException, OSError) as fault:
        raise DatasetError(f"{path.name} is not a Parquet file that can be read: {fault}") from None


def _check_footer(path: Path) -> None:
    """Refuse what a Parquet file says of itself where it is long: its reader takes many times as much memory."""
    with path.open("rb") as file:
        file.seek(-min(8, path.stat().st_size), io.SEEK_END)
        if int.from_bytes(file.read(4), "little") > _MAX_FOOTER:
            raise DatasetError(f"{path.name} is not a Parquet file that can be read: its footer is too long")


def _check_unpacked(path: Path, size: int, most: int = MAX_FILE_BYTES) -> None:
    if size > most:
        raise DatasetError(f"{path.name} unpacks to more than {most >> 20} MiB")


def _header(path: Path, lines: Iterator[list[str]]) -> list[str]:
    header = [name.strip() for name in next(lines, [])]
    if not header:
        raise DatasetError(f"{path.name} is empty: its first line must name the columns")
    return header


def _indexes(path: Path, header: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Where the columns of these names stand; a file must have each once."""
    places: dict[str, list[int]] = {}
    for index, name in enumerate(header):
        places.setdefault(composed(name), []).append(index)
    found = {name: places.get(composed(name), []) for name in columns}
    for name, indexes in found.items():
        if len(indexes) != 1:
            how_many = f"{len(indexes)} columns" if indexes else "no column"
            known = f"; it has {', '.join(header[:20])}" if not indexes else ""
            raise DatasetError(f"{path.name} has {how_many} {name!r}, and the terms ask for one{known}")
    return [index for (index,) in found.values()]


_KINDS: dict[str, Callable[[Path, Sequence[str], TableFormat, str], AbstractContextManager[_Table]]] = {
    ".csv": _csv,
    ".npz": _npz,
    ".parquet": _parquet,
    ".xlsx": _xlsx,
}
