"""`fedgrove bench bounds` on small models and rounds."""

import json

import pytest

from fedgrove.node.masking.bounds import sketch
from fedgrove_lab.bench import bounds
from fedgrove_lab.bench.bounds_report import write_report
from fedgrove_lab.made import Made

PARAMETERS, PARTNERS, CLIENTS = (500, 700), (3, 4), 10


@pytest.fixture(scope="module")
def result():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sketch, "STRETCHING", 1)
        return bounds.run(PARAMETERS, PARTNERS, CLIENTS)


@pytest.fixture(scope="module")
def rows(result):
    return {row.name: row for row in result.rows}


@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize("partners", PARTNERS)
def test_a_voucher_is_measured_beside_the_masks_of_the_same_update(rows, parameters, partners):
    where = f"{parameters:,} parameters, {partners} partners"
    whole = rows[f"client: voucher, {where}"]
    assert whole.limit_name == "masking the same update" and whole.value > whole.limit > 0
    for part in ("sketches", "commitments", "the proof"):
        assert 0 < rows[f"client: of it {part}, {where}"].value < 2 * whole.value
    magic, words, points, knowledge, proof = 4, 4 * 259, 33 * (2 + partners), 64, 23_238
    size = rows[f"client: voucher's size, {where}"]
    assert size.value == magic + words + points + knowledge + proof and size.limit == 4 * parameters


def test_a_batch_is_measured_beside_single_vouchers(rows):
    single, batch = rows["verify one voucher, 4 partners"], rows["verify 10 vouchers, 4 partners"]
    assert batch.limit == 10 * single.value and batch.value > 0
    assert rows["goal for 100 vouchers"].note in ("met", "missed")


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_the_check_of_a_sum_has_its_parts(rows, parameters):
    parts = ("sketch of the sum", "sketches of opened masks", "both equations")
    seconds = [rows[f"check of the sum: {part}, {parameters:,} parameters"].value for part in parts]
    assert rows[f"check of the sum: all, {parameters:,} parameters"].value == pytest.approx(sum(seconds))
    assert rows[f"check of the sum: all, {parameters:,} parameters"].note == "9 members summed, 1 not"
    masks = 9 + 4  # self-masks, and those with the one that is not summed
    assert rows[f"check of the sum: sketches of opened masks, {parameters:,} parameters"].note.startswith(f"{masks} ")


def test_what_others_published_is_marked(rows):
    published = [row for row in rows.values() if row.name.startswith("RiseFL")]
    assert [row.value for row in published] == [28, 53, 164]
    assert all(row.note.startswith("published: ") for row in published)
    assert rows["commitments to 700 parameters, one each"].note.startswith("reckoned from 300")


def test_an_honest_round_that_does_not_verify_stops_the_benchmark(monkeypatch):
    monkeypatch.setattr(sketch, "STRETCHING", 1)
    monkeypatch.setattr(bounds, "check_vouchers", lambda setting, vouchers: frozenset(vouchers))
    with pytest.raises(AssertionError, match="does not verify"):
        bounds.run((500,), (3,), 8)
    monkeypatch.undo()
    monkeypatch.setattr(sketch, "STRETCHING", 1)
    monkeypatch.setattr(bounds, "equation_holds", lambda *_: False)
    with pytest.raises(AssertionError, match="equation"):
        bounds.run((500,), (3,), 8)


def test_the_report_has_every_row_and_how_it_was_made(result, tmp_path):
    made = Made("fedgrove bench bounds", "0123456789ab", "Python 3.11, torch 2, numpy 2")
    write_report(tmp_path / "bounds", result, made)
    page = (tmp_path / "bounds" / "README.md").read_text()
    assert "- `fedgrove bench bounds` at commit 0123456789ab, Python 3.11" in page
    assert "10 clients, 256 words of the sketch and 3 metric words." in page
    assert all(f"| {row.name} |" in page for row in result.rows)
    assert json.loads((tmp_path / "bounds" / "bounds.json").read_text())["rows"] == result.to_json()["rows"]
