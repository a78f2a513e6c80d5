"""`fedgrove bench masking` on a small model."""

import sys

import pytest

from node.cli import bench_masking


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.delenv(bench_masking.FLOWER_VARIABLE, raising=False)
    return {row["name"]: row for row in bench_masking.run(2_000)["rows"]}


def test_the_figures_of_the_specification_are_there(rows):
    client = rows["client: mask, 7 partners"]
    assert client["value"] > 0 and client["ratio"] == pytest.approx(client["value"] / client["limit"], rel=0.1)
    assert rows["server: recover secrets"]["value"] > 0 and rows["server: sum and unmask"]["value"] > 0
    assert rows["client: upload"]["value"] == 4 * 2_000 + 4_312
    assert rows["server: peak memory"]["value"] > 4 * 2_000


def test_without_flower_the_row_says_how_to_get_it(rows):
    assert "pip install flwr" in rows["Flower SecAgg+"]["beside"]


@pytest.mark.parametrize(("python", "hint"), [(sys.executable, "flwr"), ("/nonexistent/python", "No such file")])
def test_an_environment_without_flower_is_named(monkeypatch, python, hint):
    monkeypatch.setenv(bench_masking.FLOWER_VARIABLE, python)
    row = bench_masking.run(1_000)["rows"][-1]
    assert row["value"] == "failed" and bench_masking.FLOWER_VARIABLE in row["beside"] and hint in row["beside"]
