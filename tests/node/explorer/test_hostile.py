"""What comes from chain and store is shown, and does nothing."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import Unreachable
from fedgrove.node.explorer.drawings import bars, lines
from fedgrove.node.explorer.figures import short, size, time
from fedgrove.node.explorer.inert import MAX_TEXT, contents_of_model, document, inert
from fedgrove.node.explorer.sources import DirectorySource
from fedgrove.node.explorer.survey import survey
from tests.node.explorer.conftest import exploring

MARKUP = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>'
TRICKS = "‮evil\x1b[2J\x00​"


@given(st.text(max_size=2000))
def test_inert_text_is_printable_and_short(text):
    shown = inert(text)
    assert shown.isprintable() and len(shown) < 9 * MAX_TEXT + 60


def test_inert_text_shows_what_hides():
    assert inert(TRICKS) == "\\u{202e}evil\\u{1b}[2J\\u{0}\\u{200b}"
    assert inert("two\u3164words\U000e0101") == "two\\u{3164}words\\u{e0101}"


@given(st.binary(max_size=300))
def test_any_bytes_can_be_looked_at(data):
    assert document(data).replace("\n", "").isprintable()


def test_a_deep_document_is_no_document():
    assert "not a JSON document" in document(b"[" * 100_000)


def model(header: dict | bytes, body: bytes = b"") -> bytes:
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + body


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"1234567",
        b"\xff" * 8 + b"{}",
        model(b"[1, 2]"),
        model(b"{" * 5000),
        model({"w": 3}),
        model({"w": {"dtype": "F32", "shape": [-1]}}),
        model({"w": {"dtype": "F32", "shape": [10**30]}}),
        model({"w": {"dtype": "F32", "shape": [1] * 100}}),
        model({"w": {"dtype": "F32"}}),
        b"\x80\x04a pickle, say",
    ],
    ids=range(11),
)
def test_a_broken_model_has_a_fault_and_no_contents(blob, tmp_path):
    store = DiskStore(tmp_path)
    found = contents_of_model(store, store.put(blob).digest, 1 << 20)
    assert found.fault and not found.tensors


def test_names_in_a_model_are_inert(tmp_path):
    store = DiskStore(tmp_path)
    table = {MARKUP + TRICKS + "x" * 10_000: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
    found = contents_of_model(store, store.put(model(table, bytes(24))).digest, 1 << 20)
    (tensor,) = found.tensors
    assert found.parameters == 6 and len(tensor.name) < 200 and tensor.name.isprintable()


def test_a_huge_blob_is_not_read(tmp_path):
    store = DiskStore(tmp_path)
    assert "at most" in contents_of_model(store, store.put(bytes(3 << 20)).digest, 1 << 20).fault


@given(st.lists(st.floats(0, allow_nan=False), min_size=1, max_size=20))
def test_any_figures_can_be_drawn(values):
    numbered = list(enumerate(values, 1))
    for drawing in (lines(numbered, len(values), "title", "loss"), bars(numbered, len(values), "title", "gas")):
        assert "nan" not in drawing.lower().replace("quantity", "") and drawing.startswith('<div class="chart')


def test_figures_and_times_beyond_sense_have_words():
    assert time(1 << 62) == time(None) == "at an invalid time"
    assert short(12_345_678) == "12.3M" and short(0.125) == "0.125"
    assert (size(None), size(999), size(1_500_000)) == ("–", "999 B", "1.5 MB")


def test_markup_from_the_store_is_text_on_every_page(run, kept, tmp_path):
    """Rows as a hostile store and chain would fill them: names, texts, states; the pages escape them all."""
    with exploring(DirectorySource(kept), tmp_path / "cache") as explorer:
        with explorer.index.changes() as database:
            config = database.execute("SELECT text FROM blobs WHERE role = 'config'").fetchone()["text"]
            evil = config.replace(b'"digits demo"', json.dumps(MARKUP).encode())
            database.execute("UPDATE blobs SET text = ? WHERE role = 'config'", (evil,))
            database.execute("UPDATE blobs SET text = ? WHERE role = 'metrics'", (json.dumps(MARKUP).encode(),))
            database.execute("UPDATE members SET account = ?, vrf_key = ?", (MARKUP, MARKUP))
            database.execute("UPDATE blobs SET cid = ?", (MARKUP,))
        for path in ("", "rounds/1/", "clients/", "clients/1/", "models/", "contracts/", f"blobs/{_model(explorer)}/"):
            page = explorer.page(path)
            assert "<img src=x" not in page and "<script>alert" not in page
        assert "&lt;img src=x" in explorer.page()


def _model(explorer) -> str:
    return explorer.index.value("SELECT hex(model) FROM rounds WHERE model IS NOT NULL").lower()


def test_what_the_store_cannot_give_is_said(run, kept, tmp_path):
    with exploring(DirectorySource(kept), tmp_path / "cache") as explorer:
        digest = explorer.index.value("SELECT digest FROM blobs WHERE role = 'model'")
        block = kept / "store" / "blocks" / digest.hex()
        block.chmod(0o644)
        block.write_bytes(bytes(2 << 20))
        survey(explorer.index, explorer.watch.source.store, 99, 1000)
        assert "damaged" in explorer.page(f"blobs/{digest.hex()}/")
        block.unlink()
        survey(explorer.index, explorer.watch.source.store, 100, 1000)
        assert "missing" in explorer.page(f"blobs/{digest.hex()}/")
        assert explorer.client.get(f"/raw/{digest.hex()}").status_code == 404


def test_a_store_that_is_away_keeps_what_was_found(run, kept, tmp_path, monkeypatch):
    def away(*_):
        raise Unreachable("the store does not answer")

    with exploring(DirectorySource(kept), tmp_path / "cache") as explorer:
        before = [tuple(row) for row in explorer.index.rows("SELECT * FROM blobs")]
        monkeypatch.setattr(explorer.watch.source.store, "root", away)
        with pytest.raises(Unreachable):
            survey(explorer.index, explorer.watch.source.store, 99, 1000)
        assert [tuple(row) for row in explorer.index.rows("SELECT * FROM blobs")] == before
