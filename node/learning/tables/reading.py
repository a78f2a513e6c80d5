"""A member's table as features and targets, as the terms say; every fault is one sentence with its place."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

import numpy as np

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.tables.cells import MISSING, MissingCell, category, number, text_of
from fedgrove.node.learning.tables.files import Row, rows_of
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.learning.tables.settings import Column, TableSettings, composed

How = TypeVar("How")
Value = TypeVar("Value", int, float)
MAX_VALUES = 1 << 29
"""Features of all rows: 2 GiB as float32."""


@dataclass(frozen=True)
class Table:
    """Features (rows, features) as float32, and targets (rows,): int64 classes, or float32 in −1 … 1."""

    features: np.ndarray
    targets: np.ndarray


@dataclass(frozen=True)
class Features:
    """Features as of ``Table``, and which row of the file each is of, counted from 1."""

    features: np.ndarray
    numbers: list[int]


def read_table(path: Path, settings: TableSettings, form: TableFormat = TableFormat()) -> Table:  # noqa: B008 (frozen)
    """Read a table that a file writes in its own form.

    Raises
    ------
    DatasetError
        A file, column or cell is not as the terms say, or no row is left.
    """
    return _Reading(path, settings, form).read()


def read_features(path: Path, settings: TableSettings, form: TableFormat = TableFormat()) -> Features:  # noqa: B008
    return _Reading(path, settings, form, labelled=False).read_features()


class _Reading:
    def __init__(self, path: Path, settings: TableSettings, form: TableFormat, labelled: bool = True) -> None:
        self._path, self._settings, self._form = path, settings, form
        self._names = (*settings.numbers, *settings.categories, *((settings.target,) if labelled else ()))
        self._places = {name: _places(settings.columns[name].values) for name in settings.categories}
        self._indicators = {name: settings.features - place for place, name in enumerate(settings.indicators[::-1], 1)}
        self._classes = _places(settings.classes)
        self._features, self._targets, self._rows = array("f"), array("d"), array("q")

    def read(self) -> Table:
        features = self.read_features().features
        kind = np.int64 if self._settings.kind == "classification" else np.float32
        return Table(features, np.frombuffer(self._targets, np.float64).astype(kind))

    def read_features(self) -> Features:
        for count, row in enumerate(rows_of(self._path, self._names, self._form, self._settings.separator), 1):
            self._take(count, row)
        rows, width = len(self._rows), self._settings.features
        if not rows:
            raise DatasetError(
                f"{self._path.name} has no row to use: below the header there is none, or all lack a value"
            )
        return Features(np.frombuffer(self._features, np.float32).reshape(rows, width).copy(), self._rows.tolist())

    def _take(self, count: int, row: Row) -> None:
        """Add a row; nothing of a row with a missing value, where the terms say that these are dropped."""
        features = array("f", bytes(4 * self._settings.features))
        try:
            target = self._fill(features, row)
        except MissingCell:
            return
        self._features.extend(features)
        self._rows.append(count)
        if target is not None:
            self._targets.append(target)
        if len(self._features) > MAX_VALUES:
            raise DatasetError(f"{self._path.name} has more than {MAX_VALUES} values: give fewer rows or columns")

    def _fill(self, features: array, row: Row) -> float | None:
        """Write a row's features, and return its target; None where no target is read."""
        cells = dict(zip(self._names, row.cells, strict=True))
        for index, name in enumerate(self._settings.numbers):
            features[index] = self._number(row, name, self._given(features, name, cells[name]))
        start = len(self._settings.numbers)
        for name, places in self._places.items():
            cell = self._given(features, name, cells[name])
            if cell is not None:
                features[start + self._read(row, name, category, cell, places)] = 1.0
            start += len(places)
        return self._target(row, cells[self._settings.target]) if self._settings.target in cells else None

    def _given(self, features: array, name: str, cell: object) -> object:
        """The cell, or where it is missing what the terms fill in; None for a category with an indicator alone."""
        column = self._settings.columns[name]
        if not column.fills or text_of(cell) not in MISSING or text_of(cell) in self._places.get(name, ()):
            return cell
        if name in self._indicators:
            features[self._indicators[name]] = 1.0
        return column.fill

    def _number(self, row: Row, name: str, cell: object) -> float:
        """A number, scaled by its range where the terms scale."""
        column = self._settings.columns[name]
        if column.fills and cell is column.fill:
            value = float(cast(float, cell))
        else:
            value = self._read(row, name, self._numeric, cell, column)
        return value if self._settings.scale == "none" else _scaled(value, column.range)

    def _target(self, row: Row, cell: object) -> float:
        """A class's place, or a number scaled to −1 … 1."""
        settings = self._settings
        if settings.kind == "classification":
            return self._read(row, settings.target, category, cell, self._classes)
        own = Column("number", settings.target_range)
        return _scaled(self._read(row, settings.target, self._numeric, cell, own), settings.target_range)

    def _numeric(self, cell: object, column: Column) -> float:
        return number(cell, column, self._form)

    def _read(self, row: Row, name: str, read: Callable[[object, How], Value], cell: object, how: How) -> Value:
        where = f"{self._path.name}, {row.place}, column {name}"
        try:
            return read(cell, how)
        except MissingCell:
            if self._settings.missing == "drop":
                raise
            raise DatasetError(
                f'{where}: the value is missing; fill it in, or agree on missing = "drop", or on a fill, in the terms'
            ) from None
        except InvalidInput as fault:
            raise DatasetError(f"{where}: {fault}") from None


def _scaled(value: float, span: tuple[float, ...]) -> float:
    least, largest = span
    return (2 * value - (least + largest)) / (largest - least)


def _places(values: tuple[str, ...]) -> dict[str, int]:
    return {composed(value): place for place, value in enumerate(values)}
