"""A member's table as features and targets, as the terms say; every fault is one sentence with its place."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from fedgrove.node.learning.tables.cells import InvalidCell, MissingCell, category, number
from fedgrove.node.learning.tables.files import InvalidTable, Row, rows_of
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


def read_table(path: Path, settings: TableSettings) -> Table:
    """Read a table.

    Raises
    ------
    InvalidTable
        A file, column or cell is not as the terms say, or no row is left.
    """
    return _Reading(path, settings).read()


class _Reading:
    """The state of one file's reading."""

    def __init__(self, path: Path, settings: TableSettings) -> None:
        self._path, self._settings = path, settings
        self._names = (*settings.numbers, *settings.categories, settings.target)
        self._places = {name: _places(settings.columns[name].values) for name in settings.categories}
        self._classes = _places(settings.classes)
        self._features, self._targets = array("f"), array("d")

    def read(self) -> Table:
        """The whole table."""
        for row in rows_of(self._path, self._names, self._settings.separator):
            self._take(row)
        rows, width = len(self._targets), self._settings.features
        if not rows:
            raise InvalidTable(f"{self._path.name} has no row to learn from")
        features = np.frombuffer(self._features, np.float32).reshape(rows, width).copy()
        kind = np.int64 if self._settings.kind == "classification" else np.float32
        return Table(features, np.frombuffer(self._targets, np.float64).astype(kind))

    def _take(self, row: Row) -> None:
        """Add a row; nothing of a row with a missing value, where the terms say that these are dropped."""
        features = array("f", bytes(4 * self._settings.features))
        try:
            target = self._fill(features, row)
        except MissingCell:
            return
        self._features.extend(features)
        self._targets.append(target)
        if len(self._features) > MAX_VALUES:
            raise InvalidTable(f"{self._path.name} has more than {MAX_VALUES} values: give fewer rows or columns")

    def _fill(self, features: array, row: Row) -> float:
        """Write a row's features, and return its target."""
        cells = dict(zip(self._names, row.cells, strict=True))
        for index, name in enumerate(self._settings.numbers):
            features[index] = self._number(row, name, cells[name])
        start = len(self._settings.numbers)
        for name, places in self._places.items():
            features[start + self._read(row, name, category, cells[name], places)] = 1.0
            start += len(places)
        return self._target(row, cells[self._settings.target])

    def _number(self, row: Row, name: str, cell: object) -> float:
        """A number, scaled by its range where the terms scale."""
        column = self._settings.columns[name]
        value = self._read(row, name, number, cell, column)
        return value if self._settings.scale == "none" else _scaled(value, column.range)

    def _target(self, row: Row, cell: object) -> float:
        """A class's place, or a number scaled to −1 … 1."""
        settings = self._settings
        if settings.kind == "classification":
            return self._read(row, settings.target, category, cell, self._classes)
        own = Column("number", settings.target_range)
        return _scaled(self._read(row, settings.target, number, cell, own), settings.target_range)

    def _read(self, row: Row, name: str, read: Callable[[object, How], Value], cell: object, how: How) -> Value:
        where = f"{self._path.name}, {row.place}, column {name}"
        try:
            return read(cell, how)
        except InvalidCell as fault:
            raise InvalidTable(f"{where}: {fault}") from None
        except MissingCell:
            if self._settings.missing == "drop":
                raise
            raise InvalidTable(
                f'{where}: the value is missing; fill it in, or agree on missing = "drop" in the terms'
            ) from None


def _scaled(value: float, span: tuple[float, ...]) -> float:
    """A number of a range as one of −1 … 1."""
    least, largest = span
    return (2 * value - (least + largest)) / (largest - least)


def _places(values: tuple[str, ...]) -> dict[str, int]:
    return {composed(value): place for place, value in enumerate(values)}
