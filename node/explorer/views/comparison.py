"""Several runs next to each other: figures, curves, terms with their differences, and rounds by number."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile, zip_longest
from pathlib import PurePath

from markupsafe import Markup

from fedgrove.node.explorer import drawings
from fedgrove.node.explorer.checks import Checks, Summary
from fedgrove.node.explorer.figures import UNITS, unit_of
from fedgrove.node.explorer.inert import inert
from fedgrove.node.explorer.terms import latest_config
from fedgrove.node.explorer.views.rounds import CheckedRound, all_rounds
from fedgrove.node.explorer.views.rows import count_records
from fedgrove.node.explorer.views.settings import LEARNING, flat, shown
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove.node.status.price import Price
from fedgrove.node.status.subject import subject_of

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


@dataclass(frozen=True)
class ComparedRun:
    """One of several runs.

    Attributes
    ----------
    number : int
        From 1, in the order in which they were given.
    name, label : str
        What people call it: in full, and as short as it stays unique.
    command : str
        The command that checks the same.
    summary : Summary
        How far it is checked.
    subject : str
        What is learned, and how; empty where the terms are not at hand.
    known : bool
        The records were read; before, no figure is known.
    members : int
        How many registered.
    rounds : tuple of CheckedRound
        Up to now.
    terms : mapping of (str, str) to str
        Value of each term, by table and key; empty where the terms are not at hand.
    practice : bool
        It ran on a practice chain, whose fees cost nothing.
    """

    number: int
    name: str
    label: str
    command: str
    summary: Summary
    subject: str
    known: bool
    members: int
    rounds: tuple[CheckedRound, ...]
    terms: Mapping[tuple[str, str], str]
    practice: bool = False

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
    runs : tuple of ComparedRun
    version : int
        Counts the changes.
    settled : bool
        Nothing will change any more but what a live history brings.
    live : bool
        One of the histories may grow.
    """

    runs: tuple[ComparedRun, ...]
    version: int
    settled: bool
    live: bool

    @classmethod
    def of(cls, watches: Sequence[IndexWatch]) -> "Comparison":
        """The comparison as it stands."""
        # Before the rest is read, so that no later change is missed.
        version, settled = version_of(watches), all(watch.sight.settled(watch.source.live) for watch in watches)
        labels = labels_of([inert(watch.source.name) for watch in watches])
        named = enumerate(zip(watches, labels, strict=True), 1)
        runs = tuple(_run(number, watch, label) for number, (watch, label) in named)
        return cls(runs, version, settled, any(watch.source.live for watch in watches))

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
            lines = [(run.number, _stated(run.rounds, name)) for run in self.runs]
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


def _run(number: int, watch: IndexWatch, label: str) -> ComparedRun:
    sight, source = watch.sight, watch.source
    index, checks = watch.index if watch.known else None, Checks(sight)
    config = latest_config(index) if index is not None else None
    return ComparedRun(
        number=number,
        name=inert(source.name),
        label=label,
        command=inert(source.command, 1000),
        summary=checks.summary(count_records(index) if index is not None else 0 if sight.read else None),
        subject=inert(subject_of(config).sentence) if config is not None else "",
        known=index is not None or sight.read,
        members=index.value("SELECT count(*) FROM members") if index is not None else 0,
        rounds=tuple(all_rounds(index, checks)) if index is not None else (),
        terms={name: shown(value) for name, value in flat(config.to_tables())} if config is not None else {},
        practice=source.deployment is not None and source.deployment.practice,
    )


def _stated(rounds: Sequence[CheckedRound], name: str) -> list[tuple[int, float]]:
    values = ((place, row.figure(name)) for place, row in enumerate(rounds, 1))
    return [(place, float(value)) for place, value in values if value is not None]


def _so_far(rounds: Sequence[CheckedRound], name: str, factor: float = 1.0) -> list[tuple[int, float]]:
    """Sums up to each round, as far as the figures are known."""
    known = takewhile(lambda value: value is not None, (row.figure(name) for row in rounds))
    return list(enumerate(accumulate(factor * value for value in known), 1))
