"""Pages that compare runs: one page and its tables; each run's own pages lie below, under ``runs/NUMBER/``."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedgrove.node.base.spreadsheets import csv_text
from fedgrove.node.explorer.inert import inert
from fedgrove.node.explorer.options import NO_OPTIONS, PageOptions
from fedgrove.node.explorer.pages import failed_page, make_templates
from fedgrove.node.explorer.views.comparison import MAX_ROUNDS_SHOWN, ComparedRun, Comparison
from fedgrove.node.explorer.views.rounds import CheckedRound
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove.node.status.price import Price
from fedgrove.node.status.rounds import COLUMNS

PATHS = ("", "rounds.csv", "terms.csv")


@dataclass(frozen=True)
class Shown:
    """What lies at a path: its text, and its media type."""

    text: str
    media_type: str


class ComparingPages:
    """Renders what compares the runs of several watches, out of what these have found by now."""

    def __init__(self, watches: Sequence[IndexWatch], options: PageOptions = NO_OPTIONS, static: bool = False) -> None:
        self._watches = watches
        self._options = options
        self._static = static
        self._templates = make_templates(options.price)

    def render(self, path: str) -> Shown | None:
        """What lies at a path, or None where there is nothing."""
        if path not in PATHS:
            return None
        comparison = Comparison.of(self._watches)
        if path:
            table = rounds_csv(comparison, self._options.price) if path == "rounds.csv" else terms_csv(comparison)
            return Shown(table, "text/csv")
        return Shown(self._page(comparison), "text/html")

    def failed(self, path: str) -> Shown:
        """In the place of what cannot be made: a page, or for a table a sentence."""
        if path:
            return Shown("This table cannot be made: the explorer's log has the reason.\n", "text/plain")
        return Shown(failed_page(self._templates, self._link, self._static), "text/html")

    def _page(self, comparison: Comparison) -> str:
        return self._templates.get_template("compare.html").render(
            title="Comparison",
            section="compare",
            url=self._link,
            static=self._static,
            live=False,
            follows=not self._static and (comparison.live or not comparison.settled),
            settled=comparison.settled,
            version=comparison.version,
            terms=None,
            practice=False,
            price=None if comparison.practised else self._options.price,
            comparison=comparison,
            most=MAX_ROUNDS_SHOWN,
        )

    def _link(self, path: str) -> str:
        """A relative link."""
        folder = not path or path.endswith("/")
        return f"{path}index.html" if self._static and folder else path or "./"


ROUNDS = ("run", "name", "check", *COLUMNS, "fee", "cost", "currency")
TERMS = ("table", "key", "differs")


def rounds_csv(comparison: Comparison, price: Price | None) -> str:
    """A row for each round of each run, in the order of the runs."""
    rows = (_round(run, row, price) for run in comparison.runs for row in run.rounds)
    return csv_text(ROUNDS, rows)


def terms_csv(comparison: Comparison) -> str:
    """A row for each term, with a column for each run; a term that a run lacks is empty there."""
    columns = (*TERMS, *(f"run_{run.number}" for run in comparison.runs))
    rows = ((term.table, term.key, "yes" if term.differs else "no", *term.values) for term in comparison.terms)
    return csv_text(columns, rows)


def _round(run: ComparedRun, row: CheckedRound, price: Price | None) -> tuple[object, ...]:
    cost = ((row.fee or 0.0) * price.amount, price.currency) if price and not run.practice else (None, None)
    return run.number, inert(run.source.name), row.check.state, *row.row(), row.fee, *cost
