"""What a benchmark returns, rows of figures and what they were measured on, and how it measures seconds."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

Result = TypeVar("Result")
Clock = Callable[[], float]


@dataclass(frozen=True)
class BenchRow:
    """One figure, and what it is compared with.

    Attributes
    ----------
    value : float or str
        In ``unit``; a word where nothing was measured.
    note : str or None
        What the figure is compared with, in words.
    limit : float or None
        A rival's figure or a physical limit of the same run, in ``unit``.
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

    @classmethod
    def compared(cls, name: str, value: float, unit: str, limit: float, limit_name: str, digits: int = 3) -> "BenchRow":
        """A figure next to a rival's or a limit; without a ratio where that is 0."""
        ratio = round(value / limit, digits) if limit else None
        return cls(name, value, unit, limit=limit, limit_name=limit_name, ratio=ratio)

    @classmethod
    def goal(cls, name: str, goal: float, value: float, unit: str | None = None) -> "BenchRow":
        """A goal, and whether a figure meets it."""
        return cls(name, goal, unit, "met" if value <= goal else "missed")

    def to_json(self) -> dict[str, Any]:
        """Plain values; what a row does not have is left out."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


@dataclass(frozen=True)
class BenchResult:
    """What one benchmark found.

    Attributes
    ----------
    setting : mapping
        What it was measured on, by the names that ``--json`` prints: plain values only.
    """

    rows: tuple[BenchRow, ...]
    setting: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**self.setting, "rows": [row.to_json() for row in self.rows]}


def timed(work: Callable[[], Result], clock: Clock = time.perf_counter) -> tuple[float, Result]:
    """Seconds of a call, and what it returned."""
    start = clock()
    result = work()
    return clock() - start, result


def least(*works: Callable[[], object], repeats: int, clock: Clock = time.perf_counter) -> tuple[float, ...]:
    """Least seconds of each, in turns, so that all see the same machine."""
    runs = [[timed(work, clock)[0] for work in works] for _ in range(repeats)]
    return tuple(map(min, zip(*runs, strict=True)))
