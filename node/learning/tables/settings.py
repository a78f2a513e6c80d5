"""What terms say of a table, its target and the model that learns it: ``[task.options]`` of the task ``tabular``."""

import unicodedata
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, cast

from msgspec import Meta

from fedgrove.common.settings import OutOfRange, Settings
from fedgrove.node.base.strict_tables import Option
from fedgrove.node.learning.settings import ShippedTask

MAX_FEATURES, MAX_WIDTH, MAX_HIDDEN = 100_000, 65_536, 16
MAX_FILL = 3e38
"""What float32 holds."""
_Hidden = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=MAX_WIDTH)], ...],
    Meta(min_length=1, max_length=MAX_HIDDEN, description=f"1 to {MAX_HIDDEN} widths, each from 1 to {MAX_WIDTH}"),
]


def composed(text: str) -> str:
    """The text in Unicode's form NFC, in which names and categories are compared.

    Some tools write an accent as a character of its own, so that equal looking names differ.
    """
    return unicodedata.normalize("NFC", text)


@dataclass(frozen=True)
class Column(Settings):
    """A column of every member's table.

    Attributes
    ----------
    kind : str
        ``number``, ``category`` or ``date``. A date is learned as a number: the year, and the share of it that has
        passed.
    range : tuple of float
        The least and the largest number that a cell may hold; of a date the first and the last year.
    values : tuple of str
        The categories, as they stand in the tables. Each becomes a feature of its own, 0 or 1.
    fill : object
        What a missing value counts as: a number of the range, or one of the categories.
    indicator : bool
        Whether a feature of its own is 1 where the value is missing. Of a category without ``fill`` all others are 0
        then.
    """

    kind: Literal["number", "category", "date"]
    range: tuple[float, ...] = ()
    values: tuple[str, ...] = ()
    fill: Option = None
    indicator: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind == "category":
            self.require(self.fill is None or self.fill in self.values, "fill", "one of the column's values")
            self.require(not self.range, "range", "left out where kind is category")
            self.require(_are_different(self.values, 1), "values", "a list of different texts, none empty")
            return
        self.require(not self.values, "values", f"left out where kind is {self.kind}")
        self.require(not self.range or _is_range(self.range), "range", "[least, largest]")
        fine = self.fill is None or (isinstance(self.fill, int | float) and type(self.fill) is not bool)
        least, largest = self.range or (-MAX_FILL, MAX_FILL)
        fine = fine and (self.fill is None or least <= cast(float, self.fill) <= largest)
        self.require(fine, "fill", f"a number from {least:g} to {largest:g}")
        self.require(self.fill is not None or not self.indicator, "fill", "given where indicator is true")

    @property
    def fills(self) -> bool:
        """Whether the terms say what a missing value counts as."""
        return self.fill is not None or self.indicator


@dataclass(frozen=True)
class TableSettings(ShippedTask):
    """The options of the task ``tabular``.

    Attributes
    ----------
    target : str
        The column that is learned.
    columns : dict of Column
        The columns to learn from, by name. Other columns of a table are not read.
    kind : str
        ``classification`` or ``regression``.
    classes : tuple of str
        Of a classification: what stands in the target's column.
    target_range : tuple of float
        Of a regression: the least and the largest target. Losses are of targets scaled to −1 … 1.
    model : str
        ``linear``, or ``mlp`` with ReLU between its layers.
    hidden : tuple of int
        Widths of the hidden layers of ``mlp``.
    norm : str
        What follows each hidden layer: ``none``, ``batch`` or ``layer`` normalisation.
    scale : str
        How numbers reach the model: ``ranges`` maps each column's range to −1 … 1; ``federated`` also standardises
        by means and deviations of all members' data, which a first round sums; ``none`` leaves them as they are.
    missing : str
        A row with a missing value that no ``fill`` of its column takes the place of: ``refuse`` stops with its place,
        ``drop`` leaves the row out.
    separator : str
        The delimiter of CSV files that is tried first. Members' files may have others.
    """

    target: str
    columns: dict[str, Column]
    kind: Literal["classification", "regression"] = "classification"
    classes: tuple[str, ...] = ()
    target_range: tuple[float, ...] = ()
    model: Literal["linear", "mlp"] = "linear"
    hidden: _Hidden = (32,)
    norm: Literal["none", "batch", "layer"] = "none"
    scale: Literal["ranges", "federated", "none"] = "ranges"
    missing: Literal["refuse", "drop"] = "refuse"
    separator: Annotated[str, Meta(min_length=1, max_length=1, description="one character")] = ","

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.columns, "columns", "a table for each column to learn from")
        names = tuple(map(composed, self.columns))
        self.require(len(set(names)) == len(names), "columns", "columns with different names")
        self.require(composed(self.target) not in names, "target", "a column that is not in columns")
        self._check_target()
        for name in self.numbers if self.scale != "none" else ():
            if not (span := self.columns[name].range):
                raise OutOfRange(f"columns.{name}.range", f'[least, largest] where scale is "{self.scale}"', span)
        fine = self.scale != "federated" or self.numbers
        self.require(fine, "scale", "ranges or none where no column is a number")
        fine = self.model == "mlp" or self.norm == "none"
        self.require(fine, "norm", "none where model is linear: there is no hidden layer")
        self.require(self.features <= MAX_FEATURES, "columns", f"at most {MAX_FEATURES} features in all")

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """Names of the columns of numbers and dates, sorted: the first features, in this order."""
        return tuple(sorted(name for name, column in self.columns.items() if column.kind != "category"))

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """Names of the columns of categories, sorted: their values are the features behind the numbers."""
        return tuple(sorted(name for name, column in self.columns.items() if column.kind == "category"))

    @cached_property
    def indicators(self) -> tuple[str, ...]:
        """Names of the columns with a feature that says whether the value is missing, sorted: the last features."""
        return tuple(sorted(name for name, column in self.columns.items() if column.indicator))

    @cached_property
    def features(self) -> int:
        """How many numbers enter the model."""
        categories = sum(len(self.columns[name].values) for name in self.categories)
        return len(self.numbers) + categories + len(self.indicators)

    @property
    def outputs(self) -> int:
        return len(self.classes) if self.kind == "classification" else 1

    def _check_target(self) -> None:
        if self.kind == "regression":
            self.require(not self.classes, "classes", "left out where kind is regression")
            self.require(_is_range(self.target_range), "target_range", "[least, largest] where kind is regression")
            return
        self.require(not self.target_range, "target_range", "left out where kind is classification")
        self.require(_are_different(self.classes, 2), "classes", "a list of at least two different texts")


def _is_range(values: tuple[float, ...]) -> bool:
    return len(values) == 2 and values[0] < values[1] and values[1] - values[0] < float("inf")


def _are_different(values: tuple[str, ...], least: int) -> bool:
    different = len(set(map(composed, values))) == len(values)
    return len(values) >= least and different and all(each.strip() == each for each in values)
