"""What a comparison shows as CSV, for spreadsheets: a row a round of each run, and a row a term."""

from fedgrove.node.base.spreadsheets import csv_text
from fedgrove.node.explorer.views.comparison import ComparedRun, Comparison
from fedgrove.node.explorer.views.rounds import CheckedRound
from fedgrove.node.status.price import Price
from fedgrove.node.status.rounds import COLUMNS

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
    return run.number, run.name, row.check.state, *row.row(), row.fee, *cost
