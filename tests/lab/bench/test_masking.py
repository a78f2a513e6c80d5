"""`fedgrove bench masking` on a small model."""

import sys

import pytest

from fedgrove_lab.bench import masking
from fedgrove_lab.bench.flower import FLOWER_VARIABLE


@pytest.fixture(scope="module")
def rows():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(FLOWER_VARIABLE, raising=False)
        return {row.name: row for row in masking.run(2_000).rows}


def test_the_figures_of_the_specification_are_there(rows):
    client = rows["client: mask, 7 partners"]
    assert client.limit_name.startswith("raw AES-CTR")
    assert client.value > 0 and client.ratio == pytest.approx(client.value / client.limit, abs=0.001)
    assert rows["server: recover secrets"].value > 0
    assert all(rows[f"server: sum and unmask, {which}"].value > 0 for which in ("7 partners", "default terms"))
    shares, released = 40 + 190 * 99, 52 + 54 * 99
    assert rows["client: upload"].value == 4 * 2_000 + shares + released
    assert rows["server: peak memory"].value > 4 * 2_000


@pytest.mark.parametrize(("clients", "partners", "holders"), [("100", 55, 99), ("1,000", 100, 260)])
def test_what_the_default_terms_ask_for_is_there(rows, clients, partners, holders):
    """The random partners that ``partners_of_all`` gives, and those of the tree that are not among them."""
    mask = rows[f"client: mask, {partners} partners"]
    assert mask.limit_name.endswith(f"default terms, {clients} clients") and mask.value > mask.limit > 0
    assert rows[f"client: shares, {holders} holders"].value == 40 + 190 * holders
    assert rows[f"client: seal shares, {holders} holders"].value > 0


def test_the_record_of_the_default_round_is_the_one_that_its_shares_would_give():
    bench, survivors = masking.MeasuredRound.make(), masking.SURVIVORS
    assert bench.true_record() == bench.recovered(bench.blobs, survivors, bench.releases(bench.blobs, survivors))


def test_a_typical_client_has_the_trees_seven_partners():
    assert masking.MeasuredRound.make().partners == 7


def test_without_flower_the_row_says_how_to_get_it(rows):
    assert "pip install flwr" in rows["Flower SecAgg+"].note


@pytest.mark.parametrize(("python", "hint"), [(sys.executable, "flwr"), ("/nonexistent/python", "No such file")])
def test_an_environment_without_flower_is_named(monkeypatch, python, hint):
    monkeypatch.setenv(FLOWER_VARIABLE, python)
    (row,) = masking.flower_rows(masking.MeasuredRound.make(), 1_000, 1.0, 1.0)
    assert row.value == "failed" and FLOWER_VARIABLE in row.note and hint in row.note
