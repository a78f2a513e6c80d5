"""What a stranger's words do to whoever reads them: a figure, a table, a saved model, the text of a task, a class name.

Who attacks: a coordinator that states what its members measured, a member that proposes a task, whoever hands out a
model's file or a workbook, and the writer of the terms, who names the classes. The victims only look: they log curves,
read a task before they approve it, predict, open the predictions in a spreadsheet.
"""

import csv
import io
import zipfile
from xml.etree import ElementTree

import numpy as np
import pytest

import fedgrove as fg
from fedgrove.api.saving import read_model_file
from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import canonical_json
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.spreadsheets import csv_text
from fedgrove.node.base.tensors import dump, with_metadata
from fedgrove.node.cli.predict import pictures_of
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.scores import class_scores
from fedgrove.node.learning.settings import RIGHT, confusion_names
from fedgrove.node.learning.tables.files import names_of, rows_of
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.members_metrics import MembersMetrics
from fedgrove.node.protocol.prediction import Predictions
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.tasks.bundle import Bundle
from fedgrove.node.tasks.reading_notes import reading_notes
from tests.adversary.bounded import Raised, bounded
from tests.node.tasks.folders import FILES

LOSSES = {"loss": 1 << 24, "squared_loss": 1 << 24}


# --- what a coordinator states of its members -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "counts",
    [
        dict.fromkeys(confusion_names(2), 1 << 63),  # ended whoever made a page, a log or an answer of it
        dict.fromkeys(confusion_names(2), 1 << 62),  # was an accuracy of -9e18
        dict(zip(confusion_names(2), (11, -1, 0, 0), strict=True)),
        dict(zip(confusion_names(2), (9, 0, 0, 0), strict=True)),
        {RIGHT: 11},
        {RIGHT: -1},
    ],
)
def test_counts_that_no_samples_have_are_no_metrics(counts):
    honest = Metrics(1, "ab" * 32, (3, "cd" * 32), 0.1, 10, 0.5, members=MembersMetrics(10, LOSSES)).to_table()
    lie = honest | {"members": honest["members"] | {"sums": LOSSES | counts}}
    assert Metrics.from_bytes(canonical_json(honest))
    with pytest.raises(InvalidContent, match=r"sums|counts"):
        Metrics.from_bytes(canonical_json(lie))


# --- the text of a task, before somebody approves it ------------------------------------------------------------------


def notes(text: str) -> list[str]:
    return list(reading_notes(Bundle.of({**FILES, "a.py": text.encode()})))


def test_empty_lines_at_the_end_do_not_hold_up_the_reader():
    """They took time by the square of their number: the largest file that a bundle can have, twenty minutes."""
    assert bounded(lambda: notes("x = 1" + "\n" * 262_000), seconds=30) == []


UNREAD = """if 1:
    if 1:
\\
        x = 1
        y = 2
    z = 3
\u0435val = print
\u0435val('ran')
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (UNREAD, "\u0435val"),  # Python reads the indents otherwise than its own module tokenize
        ("print(f'{\uff45\uff56\uff41\uff4c(1)}')\n", "\uff45\uff56\uff41\uff4c"),  # runs eval
        ("print(rF'''{{}} {\n \uff45\uff56\uff41\uff4c(1)}''')\n", "\uff45\uff56\uff41\uff4c"),
    ],
)
def test_a_lookalike_is_named_wherever_python_takes_it_for_a_name(text, name):
    compile(text, "a.py", "exec")
    assert any(f"letters that may look like others: {name} is" in each for each in notes(text)), notes(text)


def test_text_of_other_languages_is_no_name():
    assert notes("print(f'Größe: {1}', 'Größe {x}')\n") == []


# --- a class's name, in a spreadsheet and in a picture ----------------------------------------------------------------

FORMULAS = ("=HYPERLINK(1)", "@SUM(A1)", "+1+cmd|' /C calc'!A0", "-2+3")


def test_no_cell_of_predictions_is_a_formula():
    values = np.eye(4)
    found = Predictions("=1+1", FORMULAS, values, np.arange(1, 5), names=FORMULAS, truth=np.arange(4))
    rows = list(csv.reader(io.StringIO(csv_text(found.columns, found.table()))))
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@"))]
    assert rows[1][1] == "'" + FORMULAS[0]


def test_numbers_and_signs_stay_as_they_are():
    """Classes are often called -1 and 1, or + and -: no program that reads the predictions shall find others."""
    assert csv_text(("a",), [("-1",), ("+",), ("-",), (-0.5,), ("+1e3",)]) == "a\n-1\n+\n-\n-0.5\n+1e3\n"


def test_a_model_of_thousands_of_classes_draws_no_matrix():
    """Ten thousand make a picture of a hundred million cells."""
    classes = tuple(map(str, range(600)))
    values = np.full((4, 600), 1 / 600)
    scores = class_scores(values, np.arange(4), classes)
    found = Predictions("class", classes, values, np.arange(1, 5), truth=np.arange(4))
    assert list(pictures_of(scores, found)) == ["calibration"]


def test_a_picture_shows_class_names_as_text():
    names = ("</title><script>alert(1)</script>", "\"'><image href=x onerror=alert(1)>", "&lt;b&gt; {0} {x} %s")
    values = np.eye(3)
    found = Predictions("<y>", names, values, np.arange(1, 4), truth=np.arange(3))
    for picture in pictures_of(class_scores(values, np.arange(3), names), found).values():
        parts = {each.tag.rpartition("}")[2] for each in ElementTree.fromstring(picture).iter()}
        assert parts <= {"svg", "style", "text", "title", "rect", "path", "circle"}


# --- a saved model ----------------------------------------------------------------------------------------------------


def saved_model(path, tensors, **stated):
    """A file of ``fedgrove model save`` that says what it likes of itself, and keeps its own promises."""
    data = dump(tensors)
    about = {"format": "fedgrove-model-1", "form": "as on record", "cid": str(cid_of(data)), "terms": "{}"} | stated
    about["terms_digest"] = cid_of(about["terms"].encode("utf-8", "surrogatepass")).digest.hex()
    path.write_bytes(with_metadata(data, about))
    return path


@pytest.mark.parametrize("lie", [{"terms": '{"a":"\ud800"}'}, {"round": "\udfff"}, {"cid": "\x1b[2J" * 9999}])
def test_a_model_s_file_with_words_that_cannot_be_shown_is_refused_in_one_sentence(tmp_path, lie):
    path = saved_model(tmp_path / "a.safetensors", {"w": np.zeros(3, np.float32)}, **lie)
    with pytest.raises(InvalidContent) as fault:
        read_model_file(path)
    assert str(fault.value).isprintable() and len(str(fault.value)) < 300


def test_a_model_s_file_with_tensors_where_its_terms_leave_more_is_refused(tmp_path):
    """Centres of K-means with the form of a trained model ended in a traceback."""
    terms = FederationConfig(method=KMeansTerms(k=2, dimensions=4, step=0.05)).to_bytes().decode()
    path = saved_model(tmp_path / "a.safetensors", {"centres": np.zeros((2, 4), np.float32)}, terms=terms)
    with pytest.raises(InvalidContent, match=r"a\.safetensors does not hold what rounds by its terms leave"):
        fg.load(path)


# --- a workbook -------------------------------------------------------------------------------------------------------

_SHEET = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">{}</worksheet>'


def cell(place: str, value: str = "<v>1</v>", kind: str = "n") -> str:
    return f'<c r="{place}" t="{kind}">{value}</c>'


HEAD = f'<row r="1">{cell("A1", "<is><t>a</t></is>", "inlineStr")}</row>'


def workbook(path, sheet: str, before: str = ""):
    """A workbook with one sheet of this text."""
    from openpyxl import Workbook

    saved = io.BytesIO()
    Workbook().save(saved)
    with zipfile.ZipFile(saved) as known, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name in known.namelist():
            own = name == "xl/worksheets/sheet1.xml"
            made.writestr(name, before + _SHEET.format(sheet) if own else known.read(name))
    return path


def read(path) -> list[object]:
    assert names_of(path) == ["a"]
    return [row.cells[0] for row in rows_of(path, ["a"])]


@pytest.mark.parametrize(("place", "number"), [("A999999999999", 999999999999), ("XFE2", 2)])
def test_a_cell_beyond_all_sheets_is_refused(tmp_path, place, number):
    """Of all rows up to it, empty ones were made, each of 16,384 cells: for ever."""
    path = workbook(tmp_path / "a.xlsx", f'<sheetData>{HEAD}<row r="{number}">{cell(place)}</row></sheetData>')
    end = bounded(lambda: read(path), seconds=30)
    assert isinstance(end, Raised) and end.kind is DatasetError and "beyond the 1048576 rows and 16384" in end.message


def test_a_cell_in_the_last_row_and_a_false_size_cost_little(tmp_path):
    """A format on a whole column puts one there, in honest workbooks."""
    size, last = '<dimension ref="A1:XFD1048576"/>', f'<row r="1048576">{cell("A1048576")}</row>'
    path = workbook(tmp_path / "a.xlsx", f"{size}<sheetData>{HEAD}{last}</sheetData>")
    assert bounded(lambda: read(path), seconds=30) == [1]


@pytest.mark.parametrize(
    "entities",
    [
        '<!DOCTYPE x [<!ENTITY b SYSTEM "file:///etc/hostname">]>',
        f'<!DOCTYPE x [<!ENTITY a "{"A" * 100_000}"><!ENTITY b "{"&a;" * 5000}">]>',
    ],
)
def test_entities_of_a_workbook_neither_grow_nor_read_files(tmp_path, entities):
    text = f'<sheetData><row r="1">{cell("A1", "<is><t>&b;</t></is>", "inlineStr")}</row></sheetData>'
    path = workbook(tmp_path / "a.xlsx", text, entities)
    end = bounded(lambda: names_of(path), seconds=60, mebibytes=128)
    assert isinstance(end, Raised) and end.kind is DatasetError and "not a workbook that can be read" in end.message
