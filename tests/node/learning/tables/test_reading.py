"""A table as features and targets, from each kind of file; every fault is one sentence with its place."""

import json
import struct
import unicodedata
import zipfile

import numpy as np
import pytest

from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.tables.reading import read_table
from tests.node.learning.tables.tables import TABLE, settings

FEATURES = [[-0.5, 0, 1], [0, 1, 0], [1, 1, 0]]
COLUMNS = {"sex": ["m", "f", "f"], "age": [25, 50, 100], "ill": ["no", "yes", "no"], "other": [1, 2, 3]}


@pytest.fixture
def read(tmp_path):
    """Reads a text as a CSV file under options with changes."""

    def of(text, **changes):
        path = tmp_path / "mine.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_table(path, settings(**changes))

    return of


def test_numbers_are_scaled_by_their_ranges_and_categories_become_features(read):
    found = read(TABLE)
    assert found.features.dtype == np.float32 and found.targets.dtype == np.int64
    assert found.features.tolist() == FEATURES and found.targets.tolist() == [0, 1, 0]


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_npz_and_parquet_give_what_csv_gives(tmp_path, ending):
    path = tmp_path / f"mine.{ending}"
    if ending == "npz":
        np.savez(path, **{name: np.array(values) for name, values in COLUMNS.items()})
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(COLUMNS), path, row_group_size=2)
    found = read_table(path, settings())
    assert found.features.tolist() == FEATURES and found.targets.tolist() == [0, 1, 0]


def test_without_scaling_numbers_are_as_they_stand(read):
    columns = {"age": {"kind": "number"}}
    assert read(TABLE, scale="none", columns=columns).features.tolist() == [[25], [50], [100]]


def test_a_regressions_target_is_scaled_by_its_range(read):
    changes = {"target": "age", "kind": "regression", "classes": None, "target_range": [0, 100]}
    columns = {"sex": {"kind": "category", "values": ["f", "m"]}}
    found = read(TABLE, columns=columns, **changes)
    assert found.targets.dtype == np.float32 and found.targets.tolist() == [-0.5, 0, 1]


def test_a_narrow_range_far_from_zero_keeps_its_digits(read):
    columns = {"age": {"kind": "number", "range": [1.7e9, 1.7e9 + 8]}}
    found = read("age,ill\n1700000001,no\n1700000002,yes\n", columns=columns)
    assert found.features.tolist() == [[-0.75], [-0.5]]


def test_whole_numbers_that_gaps_made_decimal_are_still_their_categories(read):
    columns = {"sex": {"kind": "category", "values": ["0", "1"]}}
    assert read("sex,ill\n1.0,no\n0,yes\n", columns=columns).features.tolist() == [[0, 1], [1, 0]]


def test_rows_with_missing_values_are_dropped_where_the_terms_say_so(read):
    text = "sex,age,ill\nm,,no\n?,20,no\nf,50,NA\nf,50,yes\n"
    assert read(text, missing="drop").features.tolist() == [[0, 1, 0]]


def test_a_word_for_missing_is_a_category_where_the_terms_list_it(read):
    columns = {"sex": {"kind": "category", "values": ["f", "?"]}}
    assert read("sex,ill\n?,no\n", columns=columns).features.tolist() == [[0, 1]]


def test_a_byte_order_mark_an_empty_line_and_quotes_are_read(read):
    text = b'\xef\xbb\xbf"age";ill;sex\r\n\r\n"25";no;m\r\n'
    assert read(text, separator=";").features.tolist() == [[-0.5, 0, 1]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sex,age,ill\nm,25,no\nm,abc,no\n", "mine.csv, line 3, column age: 'abc' is not a number"),
        ("sex,age,ill\nm,1_0,no\n", "mine.csv, line 2, column age: '1_0' is not a number"),
        ("sex,age,ill\nm,inf,no\n", "mine.csv, line 2, column age: 'inf' is not a number"),
        ("sex,age,ill\nm,1e400,no\n", "mine.csv, line 2, column age: '1e400' is not a number"),
        ("sex,age,ill\nm,101,no\n", "mine.csv, line 2, column age: '101' is outside the range 0 to 100"),
        ("sex,age,ill\nx,25,no\n", "mine.csv, line 2, column sex: 'x' is none of the categories"),
        ("sex,age,ill\nm,25,maybe\n", "mine.csv, line 2, column ill: 'maybe' is none of the categories"),
        ("sex,age,ill\nm,,no\n", "mine.csv, line 2, column age: the value is missing; fill it in, or agree"),
        ("sex,age,ill\nm,25\n", "mine.csv, line 2 has 2 cells, and the header names 3 columns"),
        ('sex,age,ill\nm,"25,no\n', "mine.csv, line 2: unexpected end of data"),
        ("sex,ill\nm,no\n", "mine.csv has no column 'age', and the terms ask for one; it has sex, ill"),
        ("sex,age,age,ill\nm,1,2,no\n", "mine.csv has 2 columns 'age', and the terms ask for one"),
        ("sex,age,ill\n", "mine.csv has no row to use"),
        ("", "mine.csv is empty: its first line must name the columns"),
        (b"sex,age,ill\nm,25,\xff\n", "mine.csv is not UTF-8: save it"),
    ],
)
def test_a_fault_names_its_line_and_column(read, text, sentence):
    with pytest.raises(DatasetError) as fault:
        read(text)
    assert str(fault.value).startswith(sentence), str(fault.value)


def test_a_long_cell_is_cut_in_the_sentence(read):
    with pytest.raises(DatasetError) as fault:
        read(f"sex,age,ill\nm,{'9' * 5000},no\n")
    assert len(str(fault.value)) < 120


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("mine.ods", b"PK", r"mine\.ods must end in \.csv, \.npz, \.parquet, \.xlsx"),
        ("mine.xlsx", b"PK", r"mine\.xlsx is not a workbook that can be read"),
        ("mine.npz", b"PK", "mine.npz is no .npz archive: write it with numpy.savez"),
        ("mine.parquet", b"PAR1", "mine.parquet is not a Parquet file that can be read"),
    ],
)
def test_other_files_are_refused(tmp_path, name, data, sentence):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DatasetError, match=sentence):
        read_table(tmp_path / name, settings())


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DatasetError, match=r"cannot read mine\.csv: No such file"):
        read_table(tmp_path / "mine.csv", settings())


@pytest.mark.parametrize("ages", [np.array([1, None, 2], object), np.zeros((3, 2)), np.zeros(2)])
def test_npz_arrays_of_another_form_are_refused(tmp_path, ages):
    np.savez(tmp_path / "mine.npz", **(COLUMNS | {"age": ages}))
    with pytest.raises(DatasetError, match=r"mine\.npz (has Python objects in age|must hold an array)"):
        read_table(tmp_path / "mine.npz", settings())


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ("(1000000000000,)", "mine.npz claims 8000000000000 bytes for age, but has 64: write it again"),
        ("(-8,)", "mine.npz has a header that is none of an array of numbers or texts, in age"),
        ("(" * 300 + ")" * 300, "mine.npz has a header that is none of an array of numbers or texts, in age"),
    ],
)
def test_an_npz_header_that_claims_what_is_not_there_takes_no_memory(tmp_path, shape, sentence):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    np.savez(tmp_path / "mine.npz", **{name: value for name, value in COLUMNS.items() if name != "age"})
    with zipfile.ZipFile(tmp_path / "mine.npz", "a") as archive:
        archive.writestr("age.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64))
    with pytest.raises(DatasetError) as fault:
        read_table(tmp_path / "mine.npz", settings())
    assert str(fault.value).startswith(sentence) and len(str(fault.value)) < 300 and "\n" not in str(fault.value)


def test_parquet_without_pyarrow_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "mine.parquet").write_bytes(b"PAR1")
    with pytest.raises(DatasetError, match=r"mine\.parquet is Parquet, and pyarrow is not installed"):
        read_table(tmp_path / "mine.parquet", settings())


@pytest.mark.parametrize(("limit", "sentence"), [("MAX_ROWS", "more than 2 rows"), ("MAX_FILE_BYTES", "larger than")])
def test_what_is_too_large_is_refused(read, monkeypatch, limit, sentence):
    monkeypatch.setattr(f"fedgrove.node.learning.tables.files.{limit}", 2)
    with pytest.raises(DatasetError, match=sentence):
        read(TABLE)


ACCENTS = {
    "target": "guérie",
    "classes": ["à risque", "non"],
    "columns": {"Größe": {"kind": "number", "range": [0, 9]}, "Ort": {"kind": "category", "values": ["Köln", "Ulm"]}},
}


@pytest.mark.parametrize("ending", ["csv", "npz", "parquet"])
@pytest.mark.parametrize(("of_file", "of_terms"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_accents_written_as_own_characters_are_the_same_names_and_categories(tmp_path, ending, of_file, of_terms):
    columns = {"Größe": [1.0, 2.0], "Ort": ["Köln", "Ulm"], "guérie": ["non", "à risque"]}
    columns = {
        unicodedata.normalize(of_file, name): [
            unicodedata.normalize(of_file, cell) if isinstance(cell, str) else cell for cell in cells
        ]
        for name, cells in columns.items()
    }
    path = tmp_path / f"mine.{ending}"
    if ending == "csv":
        rows = [columns, *zip(*columns.values(), strict=True)]
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    elif ending == "npz":
        np.savez(path, **{name: np.array(cells) for name, cells in columns.items()})
    else:
        pyarrow = pytest.importorskip("pyarrow")
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    terms = json.loads(unicodedata.normalize(of_terms, json.dumps(ACCENTS, ensure_ascii=False)))
    found = read_table(path, settings(**terms, scale="none"))
    assert found.features.tolist() == [[1, 1, 0], [2, 0, 1]] and found.targets.tolist() == [1, 0]
