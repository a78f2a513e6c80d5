"""Terms to begin with, out of one member's table: a person reads and changes them before anybody agrees to them."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.tables.cells import MISSING, number, text_of
from fedgrove.node.learning.tables.files import names_of, rows_of
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.learning.tables.settings import Column

MAX_CATEGORIES, MAX_CLASSES = 50, 20
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NUMBER, _DATE = Column("number"), Column("date")
_MISSING = 'missing = "drop"  # rows with missing values are left out; "refuse" stops; or give their columns a "fill"'
_HEAD = """\
# A task without code, drafted from {table}. Everything here will be public in the federation's terms.
# State what holds for every member's table: ranges that no member's numbers leave, and all categories.
[task]
name = "tabular"

[task.options]
"""
_MODEL = """\
scale = "ranges"  # or "federated": means and deviations of all members' data, summed under masks in a first round
model = "linear"  # or "mlp", with hidden = [32] and norm = "none", "batch" or "layer"

[task.options.columns]
"""
_TRAINING = """
[training]
epochs = 5
batch_size = 32
learning_rate = 0.1
"""


@dataclass
class _Seen:
    """What stands in a column: different texts up to a limit, least and largest number, whether something is missing.

    ``numeric`` says whether all texts are numbers, ``whole`` whether these are whole, ``dated`` whether all are dates,
    ``misread`` whether those that are no numbers are numbers with the other decimal mark.
    """

    form: TableFormat
    texts: set[str] = field(default_factory=set)
    least: float = math.inf
    largest: float = -math.inf
    numeric: bool = True
    whole: bool = True
    dated: bool = True
    misread: bool = True
    missing: bool = False

    def take(self, cell: object) -> None:
        text = text_of(cell)
        if text in MISSING:
            self.missing = True
            return
        if len(self.texts) <= MAX_CATEGORIES:
            self.texts.add(text)
        self.numeric = self.numeric and self._note(cell, _NUMBER)
        self.dated = self.dated and not self.numeric and self._note(cell, _DATE)
        self.misread = self.misread and (self.numeric or _is_number(cell, _other_mark(self.form)))

    def _note(self, cell: object, column: Column) -> bool:
        """Take note of a number or a date; whether it is one."""
        try:
            value = number(cell, column, self.form)
        except InvalidInput:
            return False
        self.least, self.largest = min(self.least, value), max(self.largest, value)
        self.whole = self.whole and value.is_integer()
        return True


def draft_terms(path: Path, target: str, form: TableFormat = TableFormat()) -> str:  # noqa: B008 (frozen)
    """The text of a ``terms.toml`` for tables as this one.

    Parameters
    ----------
    target : str
        Name of the column that is to be learned.
    form : TableFormat
        How this file writes a table, which is not part of the terms.

    Raises
    ------
    DatasetError
        The table cannot be read, has no such column, or nothing in it can be learned.
    """
    names = names_of(path, form)
    if target not in names:
        raise DatasetError(f"{path.name} has no column {target!r}: name one of {', '.join(names[:20])} as the target")
    seen = {name: _Seen(form) for name in names}
    for row in rows_of(path, names, form):
        for each, cell in zip(seen.values(), row.cells, strict=True):
            each.take(cell)
    _check_marks(path, seen, form)
    learned = list(_target(path, target, seen[target]))
    columns = [_column(name, each) for name, each in seen.items() if name != target]
    if all(line.startswith("#") for line in columns):
        raise DatasetError(f"{path.name} has no column from which {target!r} could be learned")
    given = [_MISSING] if any(each.missing for each in seen.values()) else []
    lines = [_HEAD.format(table=path.name).rstrip(), *learned, *given, _MODEL.rstrip()]
    return "\n".join([*lines, *columns, _TRAINING])


def _other_mark(form: TableFormat) -> TableFormat:
    return replace(form, decimal="," if form.decimal == "." else ".")


def _is_number(cell: object, form: TableFormat) -> bool:
    try:
        number(cell, _NUMBER, form)
    except InvalidInput:
        return False
    return True


def _check_marks(path: Path, seen: Mapping[str, _Seen], form: TableFormat) -> None:
    """Refuse a table whose numbers would become categories for their decimal mark."""
    mark, word = ("comma", "comma") if form.decimal == "." else (".", "point")
    for name, each in seen.items():
        if each.texts and each.misread and not each.numeric:
            advice = f"state it (--table-format decimal={mark})"
            raise DatasetError(f"{path.name}, column {name}: its numbers seem to have a decimal {word}: {advice}")


def _target(path: Path, name: str, seen: _Seen) -> Iterator[str]:
    yield f"target = {_text(name)}"
    if len(seen.texts) < 2:
        raise DatasetError(f"{path.name}, column {name}: there is nothing to learn where all rows have one value")
    if len(seen.texts) <= MAX_CLASSES and (seen.whole or not seen.numeric):
        yield 'kind = "classification"'
        yield f"classes = {_list(seen.texts)}"
    elif seen.numeric:
        yield 'kind = "regression"'
        yield f"target_range = {_range(seen)}"
    else:
        raise DatasetError(
            f"{path.name}, column {name}: it has more than {MAX_CLASSES} different texts, too many for classes"
        )


def _column(name: str, seen: _Seen) -> str:
    key = name if _BARE.fullmatch(name) else _text(name)
    if name.lower() == "id" or name.lower().endswith("_id"):
        return f"# {key} is left out: it seems to name rows"
    if len(seen.texts) < 2:
        return f"# {key} is left out: all its cells are alike"
    if seen.dated and len(seen.texts) > 2:
        return f'{key} = {{ kind = "date", range = {_years(seen)} }}'
    if seen.numeric and len(seen.texts) > 2:
        return f'{key} = {{ kind = "number", range = {_range(seen)} }}'
    if len(seen.texts) <= MAX_CATEGORIES:
        return f'{key} = {{ kind = "category", values = {_list(seen.texts)} }}'
    many = f"it has more than {MAX_CATEGORIES} different texts"
    return f"# {key} is left out: {many}; of dates state the form (--table-format dates=%d.%m.%Y)"


def _range(seen: _Seen) -> str:
    """The range, half as wide again on both sides and rounded outwards; not below zero where no number is.

    Other members' numbers are not this table's, and its own extremes are nobody else's business.
    """
    span = seen.largest - seen.least
    step = 10.0 ** math.floor(math.log10(span))
    low = seen.least - span / 2
    least = math.floor((max(0.0, low) if seen.least >= 0 else low) / step) * step
    largest = math.ceil((seen.largest + span / 2) / step) * step
    return f"[{least:.12g}, {largest:.12g}]".replace("e+", "e")


def _years(seen: _Seen) -> str:
    """Whole years, half as many again on both sides."""
    more = math.ceil((seen.largest - seen.least) / 2)
    return f"[{math.floor(seen.least) - more}, {math.ceil(seen.largest) + more}]"


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, sorted(texts)))}]"


def _text(value: str) -> str:
    """A text as TOML writes it: as JSON does, except for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
