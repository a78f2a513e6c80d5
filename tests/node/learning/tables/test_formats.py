"""A member's file may write a table in its own way: what the terms say stays the same."""

import datetime

import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.learning.tables.reading import read_features, read_table
from tests.node.learning.tables.tables import settings

BORN = {"born": {"kind": "date", "range": [1950, 2050]}}
AGE = {"age": {"kind": "number", "range": [0, 100]}}


@pytest.fixture
def read(tmp_path):
    """Reads a text as a CSV file in a form, under options with changes."""

    def of(text, form=None, encoding="utf-8", **changes):
        path = tmp_path / "mine.csv"
        path.write_bytes(text.encode(encoding))
        return read_table(path, settings(**changes), TableFormat.of(form or {}))

    return of


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(read, delimiter):
    text = "age,ill,other\n25,no,1\n75,yes,2\n".replace(",", delimiter)
    assert read(text, columns=AGE).features.tolist() == [[-0.5], [0.5]]


def test_a_wrong_delimiter_is_said_as_such(read):
    said = r"has not all columns of the terms with the delimiter ',', but it has with ';'.*--table-format delimiter=';'"
    with pytest.raises(DatasetError, match=said):
        read("age;ill\n25;no\n", {"delimiter": ","}, columns=AGE)


def test_a_missing_column_is_named_whatever_the_delimiter(read):
    with pytest.raises(DatasetError, match=r"has no column 'age'"):
        read("years;ill\n25;no\n", columns=AGE)


def test_a_decimal_comma_is_read_where_it_is_stated_and_named_where_not(read):
    text = "age;ill\n12,5;no\n75;yes\n"
    assert read(text, {"decimal": "comma"}, columns=AGE).features.tolist() == [[-0.75], [0.5]]
    with pytest.raises(DatasetError, match=r"line 2, column age: '12,5' seems to have a decimal comma.*=comma"):
        read(text, columns=AGE)
    with pytest.raises(DatasetError, match=r"'1.5' has a point"):
        read("age;ill\n1.5;no\n", {"decimal": ","}, columns=AGE)


def test_another_encoding_is_read_where_it_is_stated_and_asked_for_where_not(read):
    text, columns = "größe,ill\n25,no\n", {"größe": AGE["age"]}
    assert len(read(text, {"encoding": "cp1252"}, "cp1252", columns=columns).targets) == 1
    assert len(read(text, None, "utf-16", columns=columns).targets) == 1  # it says so itself
    with pytest.raises(DatasetError, match=r"is not UTF-8: save.*encoding=cp1252"):
        read(text, None, "cp1252", columns=columns)


def test_dates_are_years_in_whichever_form(read):
    own = read("born;ill\n02.07.2000;no\n", {"dates": "%d.%m.%Y"}, columns=BORN)
    assert own.features.tolist() == read("born,ill\n2000-07-02,no\n", columns=BORN).features.tolist()
    assert own.features[0, 0] == pytest.approx(2 * (2000 + 183 / 366 - 1950) / 100 - 1)
    with pytest.raises(DatasetError, match=r"'02.07.2000' is not a date as %Y-%m-%d.*dates="):
        read("born,ill\n02.07.2000,no\n", columns=BORN)
    with pytest.raises(DatasetError, match="outside the range 1950 to 2050"):
        read("born,ill\n1949-12-31,no\n", columns=BORN)


@pytest.fixture
def workbook(tmp_path):
    """A workbook with a sheet of patients, and of another kind."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Notes"
    sheet = book.create_sheet("Patients")
    for row in (("age", "born", "ill"), (25, datetime.datetime(2000, 7, 2), "no"), (), (75.0, "2000-07-02", "yes")):
        sheet.append(row)
    book.save(tmp_path / "mine.xlsx")
    return tmp_path / "mine.xlsx"


def test_a_sheet_of_a_workbook_is_a_table(workbook):
    own = settings(columns=AGE | BORN)
    found = read_table(workbook, own, TableFormat(sheet="Patients"))
    assert found.features[:, 0].tolist() == [-0.5, 0.5] and found.targets.tolist() == [0, 1]
    assert found.features[0, 1] == found.features[1, 1]
    with pytest.raises(DatasetError, match=r"has the sheets Notes, Patients: state one \(--table-format sheet=…\)"):
        read_table(workbook, own)


def test_a_workbook_that_unpacks_to_much_more_is_refused(workbook, monkeypatch):
    monkeypatch.setattr("fedgrove.node.learning.tables.files.MAX_WORKBOOK_BYTES", 1000)
    with pytest.raises(DatasetError, match=r"mine\.xlsx unpacks to more than"):
        read_table(workbook, settings(columns=AGE), TableFormat(sheet="Patients"))


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"delimiter": ";;"}, r"table\.delimiter"),
        ({"delimiter": ",", "decimal": ","}, r"table\.decimal"),
        ({"encoding": "base64"}, r"table\.encoding"),
        ({"encoding": "none of all"}, r"table\.encoding"),
        ({"dates": "day"}, r"table\.dates"),
        ({"colour": "red"}, r"table\.colour"),
    ],
)
def test_a_form_that_is_none_is_refused(table, key):
    with pytest.raises(InvalidConfig, match=key):
        TableFormat.of(table)


def test_missing_values_are_filled_and_marked_as_the_terms_say(read):
    columns = {
        "age": {"kind": "number", "range": [0, 100], "fill": 50, "indicator": True},
        "sex": {"kind": "category", "values": ["f", "m"], "indicator": True},
        "site": {"kind": "category", "values": ["a", "b"], "fill": "b"},
    }
    found = read("age,sex,site,ill\n25,m,a,no\nNA,,?,yes\n", columns=columns)
    # age, sex f and m, site a and b, and whether age and sex are missing
    assert found.features.tolist() == [[-0.5, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1]]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"kind": "number", "range": [0, 9], "fill": 10}, r"age\.fill must be a number from 0 to 9"),
        ({"kind": "number", "range": [0, 9], "fill": "5"}, r"age\.fill must be a number"),
        ({"kind": "number", "range": [0, 9], "indicator": True}, r"age\.fill must be given where indicator is true"),
        ({"kind": "category", "values": ["f", "m"], "fill": "x"}, r"age\.fill must be one of the column's values"),
    ],
)
def test_a_fill_that_no_cell_could_hold_is_refused(column, said):
    with pytest.raises(InvalidConfig, match=said):
        settings(columns={"age": column})


def test_features_are_read_without_a_target_and_keep_their_rows(tmp_path):
    (tmp_path / "new.csv").write_text("age\n25\nNA\n75\n")
    found = read_features(tmp_path / "new.csv", settings(columns=AGE, missing="drop"))
    assert found.features.tolist() == [[-0.5], [0.5]] and found.numbers == [1, 3]
