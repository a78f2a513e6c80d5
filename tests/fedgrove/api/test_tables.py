"""The tables of a history have the columns that the docs promise, and hold what is on record."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

import fedgrove as fg
from fedgrove.api.tables import METRICS, RECORDS, tables_of
from fedgrove.node.status.rounds import COLUMNS

REFERENCE = Path(__file__).parents[3] / "docs" / "reference.md"


@pytest.fixture(scope="module")
def history(run):
    return fg.History(run.directory)


def rows(table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table.to_csv())))


def test_rounds_are_those_of_the_history_and_of_the_report(history, run):
    found = rows(tables_of(history.rounds, history.records)["rounds"])
    for row, each, told in zip(found, history.rounds, run.report["rounds"], strict=True):
        assert {**each.to_dict(), "seconds": told["seconds"]} == told
        for name in COLUMNS:
            value = each.figure(name)
            text = " ".join(map(str, value)) if isinstance(value, tuple) else "" if value is None else str(value)
            assert row[name] == text, name
        assert int(row["active_members"]) == 6 and int(row["opened_block"]) < int(row["ended_block"])
        assert row["status"] == "closed" and row["judged"] == "" and row["accuracy"]


def test_every_record_is_a_row_with_its_author_and_fields(history):
    found = rows(tables_of(history.rounds, history.records)["records"])
    assert [row["record"] for row in found] == [type(each).__name__ for each in history.records]
    for row, record in zip(found, history.records, strict=True):
        assert (int(row["block"]), row["author"]) == (record.at.block, record.at.author)
        fields = json.loads(row["fields"])
        assert row["round"] == str(getattr(record, "round", "")) and not fields.keys() & {"round", "at", "client"}
    drawn = next(row for row in found if row["record"] == "Drawn")
    assert json.loads(drawn["fields"]).keys() == {"samples", "mask_key", "seal_key", "proof"}
    member = next(row for row in found if row["record"] == "Registered")
    assert int(json.loads(member["fields"])["vrf_x"]) >> 53  # as text: other readers of JSON would round it


def test_metrics_are_numbers_by_name(history):
    table = tables_of(history.rounds, history.records)["metrics"]
    assert {row["metric"] for row in rows(table)} == {"accuracy", "loss", "samples", "raised"} | {
        f"scores.{name}" for name in ("auc", "balanced_accuracy", "brier", "calibration_error")
    }
    assert [value for number, name, value in table.rows if name == "loss"] == [each.loss for each in history.rounds]


def test_names_that_a_spreadsheet_could_run_are_left_out(run):
    history = fg.History(run.directory)
    stated = {"good": {"deep": 2}, "=1+1": 3, "told": "words", "yes": True}
    rounds = [replace(history.rounds[0], accuracy=None, loss=0.5, samples=9, scores=None, raised=None, stated=stated)]
    found = tables_of(rounds, history.records)["metrics"].rows
    assert found == ((1, "loss", 0.5), (1, "samples", 9), (1, "stated.good.deep", 2))


def test_columns_stay_as_they_are_documented(history):
    text = REFERENCE.read_text()
    for name, columns in (("rounds", COLUMNS), ("records", RECORDS), ("metrics", METRICS)):
        assert tables_of(history.rounds, history.records)[name].columns == columns
        assert f"| `{name}.csv` | {', '.join(f'`{column}`' for column in columns)} |" in text
