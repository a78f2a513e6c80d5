"""The shipped task ``tabular``: members' tables as the terms describe them, and a linear model or an MLP."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from torch import Tensor, nn

from fedgrove.node.base.strict_tables import build
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.learning.tables.reading import read_features, read_table
from fedgrove.node.learning.tables.settings import TableSettings
from fedgrove.node.learning.tasks.standardise import Standardise
from fedgrove.node.learning.tasks.task import Answers, Data, Task, Unlabelled

TRAIN, TEST = "train", "test"
_NORMS: dict[str, type[nn.Module]] = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}


class Tabular(Task):
    """A table without code: its columns, target and model are what ``[task.options]`` says (``TableSettings``)."""

    def __init__(self, form: TableFormat = TableFormat(), /, **options: object) -> None:  # noqa: B008 (frozen)
        self._form = form
        self.settings: TableSettings = build(TableSettings, options, "task.options")

    def model(self) -> nn.Module:
        """``scale``, where numbers are standardised, and ``net``."""
        settings = self.settings
        parts = nn.Sequential()
        if settings.scale == "federated":
            parts.add_module("scale", Standardise(len(settings.numbers)))
        widths = [settings.features, *(settings.hidden if settings.model == "mlp" else ())]
        hidden = [layer for pair in pairwise(widths) for layer in self._hidden(*pair)]
        parts.add_module("net", nn.Sequential(*hidden, nn.Linear(widths[-1], settings.outputs)))
        return parts

    def data(self, source: Path) -> Data:
        """A file of rows to train on; one whose name starts with ``test`` is held out; a folder may have both."""
        if source.is_dir():
            test = _only(source, TEST, needed=False)
            return Data(self._read(_only(source, TRAIN)), self._read(test) if test else None)
        rows = self._read(source)
        return Data(rows, rows if source.name.startswith(TEST) else None)

    def metrics(self, output: Tensor, target: Tensor) -> Mapping[str, Tensor]:
        """``right`` answers, or the squared error in the target's own unit."""
        sums = super().metrics(output, target)
        if self.settings.kind == "classification":
            return sums
        least, largest = self.settings.target_range
        return {"squared_error": sums["squared_error"] * ((largest - least) / 2) ** 2}

    def unlabelled(self, source: Path) -> Unlabelled:
        """A file of rows; it may lack the target's column."""
        rows = read_features(source, self.settings, self._form)
        return Unlabelled(rows.features, rows.numbers)

    def answers(self) -> Answers:
        return Answers(self.settings.classes, self.settings.target)

    def predictions(self, output: Tensor, classifies: bool) -> Tensor:
        rows = super().predictions(output, classifies)
        if classifies:
            return rows
        least, largest = self.settings.target_range
        return (rows * (largest - least) + (least + largest)) / 2

    def _hidden(self, before: int, after: int) -> Iterator[nn.Module]:
        yield nn.Linear(before, after)
        if self.settings.norm in _NORMS:
            yield _NORMS[self.settings.norm](after)
        yield nn.ReLU()

    def _read(self, path: Path | None) -> tuple[object, object]:
        assert path is not None
        table = read_table(path, self.settings, self._form)
        return table.features, table.targets


def _only(folder: Path, start: str, needed: bool = True) -> Path | None:
    """The one file of a folder whose name begins so."""
    found = [path for path in sorted(folder.iterdir()) if path.name.startswith(start)]
    if len(found) > 1 or (needed and not found):
        raise DatasetError(
            f"{folder.name} has {len(found)} files whose names start with {start}: a folder has one to train on, "
            f"{TRAIN}.csv, and perhaps one to evaluate on, {TEST}.csv"
        )
    return found[0] if found else None
