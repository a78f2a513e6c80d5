"""Several runs next to each other: figures, curves, terms with their differences, and rounds by number."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, takewhile, zip_longest
from pathlib import PurePath

from markupsafe import Markup

from fedgrove.node.explorer import drawings
from fedgrove.node.explorer.figures import UNITS, unit_of
from fedgrove.node.explorer.inert import inert
from fedgrove.node.explorer.views.rounds import CheckedRound, stated
from fedgrove.node.explorer.views.runs import RunView
from fedgrove.node.explorer.views.settings import LEARNING, flat, shown
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove.node.status.price import Price

MAX_RUNS = 8
"""As many as there are colours that people can tell apart."""

MAX_ROUNDS_SHOWN = 500
"""A page shows no more rounds; the tables as CSV have all."""

_MOST_MARKS, _LONGEST_MARK = 6, 24
_CURVES = (
    ("Accuracy", "accuracy", 1.0),
    ("Loss", "loss", None),
    ("Members’ accuracy", "members.accuracy", 1.0),
    ("Members’ loss", "members.loss", None),
    ("Privacy spent, ε", "privacy.epsilon", None),
)
_SPENT = (("Gas so far", "gas_used"), ("Uploaded bytes so far", "bytes"))


class ComparedRun(RunView):
    """One of several runs.

    Attributes
    ----------
    label : str
        What people call it, as short as it stays unique.
    """

    def __init__(self, number: int, label: str, watch: IndexWatch) -> None:
        super().__init__(watch)
        self.number, self.label = number, label

    @property
    def known(self) -> bool:
        """Whether the records were read; before, no figure is known."""
        return self.index is not None or self.sight.read

    @cached_property
    def terms(self) -> dict[tuple[str, str], str]:
        """Value of each term, by table and key; empty where the terms are not at hand."""
        return {name: shown(value) for name, value in flat(self.config.to_tables())} if self.config is not None else {}

    @property
    def path(self) -> str:
        """Of its own pages."""
        return f"runs/{self.number}/"

    @property
    def closed(self) -> list[CheckedRound]:
        """Rounds that closed and stand."""
        return [row for row in self.rounds if row.closed]

    def last(self, name: str) -> float | None:
        """A figure of the last closed round that states it."""
        values = (row.figure(name) for row in reversed(self.closed))
        return next((value for value in values if value is not None), None)

    def total(self, name: str) -> float | None:
        """A figure's sum over all rounds; None while that of a round is not known."""
        values = [row.figure(name) for row in self.rounds]
        return None if None in values else sum(values)


@dataclass(frozen=True)
class Term:
    """A term with its value in each run; None in a run that lacks it."""

    table: str
    key: str
    values: tuple[str | None, ...]

    @property
    def differs(self) -> bool:
        """Whether the runs disagree."""
        return len(set(self.values)) > 1


@dataclass(frozen=True)
class Comparison:
    """All runs, each after what was found of it by now.

    Attributes
    ----------
    settled : bool
        Nothing will change any more but what a live history brings.
    """

    runs: tuple[ComparedRun, ...]
    version: int
    settled: bool
    live: bool

    @classmethod
    def of(cls, watches: Sequence[IndexWatch]) -> "Comparison":
        """The comparison as it stands."""
        version = version_of(watches)  # before the rest is read, so that no later change is missed
        runs = tuple(compared_runs(watches))
        settled, live = all(run.settled for run in runs), any(run.source.live for run in runs)
        return cls(runs, version, settled, live)

    @property
    def terms(self) -> list[Term]:
        """Terms by table, hyper-parameters first, each with its value in every run whose terms are at hand."""
        names = dict.fromkeys(name for run in self.runs for name in run.terms)
        tables = list(dict.fromkeys([*LEARNING, *(table for table, _ in names)]))
        ordered = sorted(names, key=lambda name: tables.index(name[0]))
        return [Term(*name, tuple(run.terms.get(name) for run in self.runs)) for name in ordered]

    def marks_of(self, run: ComparedRun) -> list[tuple[str, str]]:
        """Hyper-parameters by which a run differs from another: the first few that are short enough to read."""
        differing = (
            (term, term.values[run.number - 1]) for term in self.terms if term.differs and term.table in LEARNING
        )
        named = [(f"{term.table}.{term.key}", value) for term, value in differing if value is not None]
        return [(name, value) for name, value in named if value and len(value) <= _LONGEST_MARK][:_MOST_MARKS]

    @property
    def fees(self) -> list[float]:
        """All fees of each run, in ether."""
        return [sum(row.fee or 0.0 for row in run.rounds) for run in self.runs]

    @property
    def practised(self) -> bool:
        """Whether all runs are on practice chains."""
        return all(run.practice for run in self.runs)

    def states(self, name: str) -> bool:
        """Whether any run states a figure."""
        return any(run.last(name) is not None for run in self.runs)

    @property
    def rounds(self) -> Iterator[tuple[int, tuple[CheckedRound | None, ...]]]:
        """Each round's place from 1, and the round at that place in every run."""
        return enumerate(zip_longest(*(run.rounds for run in self.runs)), 1)

    @property
    def last(self) -> int:
        """Rounds of the longest run."""
        return max((len(run.rounds) for run in self.runs), default=0)

    def charts(self, price: Price | None) -> dict[str, Markup]:
        """Charts by their captions, each with a line for every run that states the figure."""
        found: dict[str, tuple[list[tuple[int, list[tuple[int, float]]]], float | None]] = {}
        for caption, name, top in _CURVES:
            lines = [(run.number, stated(run.rounds, name)) for run in self.runs]
            found[caption] = (lines, top)
        if price and not self.practised:
            paid = [(run.number, () if run.practice else run.rounds) for run in self.runs]
            cost = [(number, _so_far(rounds, "fee", price.amount)) for number, rounds in paid]
            found[f"Cost so far, {price.currency}"] = (cost, None)
        else:
            unit = unit_of(self.fees)
            caption = f"{'Practice fees' if self.practised else 'Fees'} so far, {unit}"
            found[caption] = ([(run.number, _so_far(run.rounds, "fee", 1 / UNITS[unit])) for run in self.runs], None)
        for caption, name in _SPENT:
            found[caption] = ([(run.number, _so_far(run.rounds, name)) for run in self.runs], None)
        return {
            caption: drawings.compared(lines, self.last, f"{caption} over rounds, by run", top)
            for caption, (lines, top) in found.items()
            if any(value for _, points in lines for _, value in points)
        }


def version_of(watches: Sequence[IndexWatch]) -> int:
    """Counts the changes of several watches."""
    return sum(watch.sight.version for watch in watches)


def labels_of(names: Sequence[str]) -> list[str]:
    """The last part of each name, or as many parts as make it unique."""
    parts = [PurePath(name).parts or (name,) for name in names]
    for count in range(1, max(map(len, parts), default=0) + 1):
        labels = ["/".join(each[-count:]) for each in parts]
        if len(set(labels)) == len(labels):
            return labels
    return list(names)


def compared_runs(watches: Sequence[IndexWatch]) -> Iterator[ComparedRun]:
    """Each run with its number and its label."""
    labels = labels_of([inert(watch.source.name) for watch in watches])
    for number, (watch, label) in enumerate(zip(watches, labels, strict=True), 1):
        yield ComparedRun(number, label, watch)


def _so_far(rounds: Sequence[CheckedRound], name: str, factor: float = 1.0) -> list[tuple[int, float]]:
    """Sums up to each round, as far as the figures are known."""
    known = takewhile(lambda value: value is not None, (row.figure(name) for row in rounds))
    return list(enumerate(accumulate(factor * value for value in known), 1))
