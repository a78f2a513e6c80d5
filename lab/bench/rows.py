"""What a benchmark returns: rows of figures, and what they were measured on."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class BenchRow:
    """One figure, and what it is compared with.

    Attributes
    ----------
    name : str
    value : float or str
        In ``unit``; a word where nothing was measured.
    unit : str or None
    note : str or None
        What the figure is compared with, in words.
    limit : float or None
        A rival's figure or a physical limit of the same run, in ``unit``.
    limit_name : str or None
    ratio : float or None
        ``value`` divided by ``limit``.
    """

    name: str
    value: float | str
    unit: str | None = None
    note: str | None = None
    limit: float | None = None
    limit_name: str | None = None
    ratio: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values; what a row does not have is left out."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


@dataclass(frozen=True)
class BenchResult:
    """What one benchmark found.

    Attributes
    ----------
    rows : tuple of BenchRow
    setting : mapping
        What it was measured on, by the names that ``--json`` prints: plain values only.
    """

    rows: tuple[BenchRow, ...]
    setting: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**self.setting, "rows": [row.to_json() for row in self.rows]}
