"""A small file that takes gigabytes to read, or ends the program that reads it.

Who attacks: whoever hands a member or a coordinator a file of data, a folder with a task, or a blob of a round. These
are read outside of the sandbox, by the process that holds the keys.

What stops it: sizes are read and refused before what they describe is: the members of an archive, the header of an
array or of a safetensors file, the values of an array. Each attack may take 128 MiB, and must end in one sentence.
"""

import io
import json
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base import archives, tensor_views
from fedgrove.node.base import arrays as base_arrays
from fedgrove.node.base.arrays import names_in_npz, read_arrays
from fedgrove.node.base.tensors import load as load_model
from fedgrove.node.cli import task_new
from fedgrove.node.cli.output import CommandError
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.publishers import DatasetError
from fedgrove.node.learning.settings import ModelSpec
from fedgrove.node.learning.shared import shared_from_bytes
from fedgrove.node.learning.tables.drafting import draft_terms
from fedgrove.node.methods.kmeans.datasets import points_of_file
from fedgrove.node.methods.kmeans.settings import KMeansSettings
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.tasks.sandbox import runtime
from tests.adversary.bounded import TOO_MUCH, Raised, bounded
from tests.adversary.mutation import COUNTS, faults

MIB = 1 << 20
ROOT = Path(__file__).parents[2]


def refused(act, kind, sentence, mebibytes=128):
    """It ends in one sentence, with little memory."""
    end = bounded(act, seconds=60, mebibytes=mebibytes)
    assert isinstance(end, Raised) and end.kind is kind, end
    assert sentence in end.message and len(end.message) < 400 and end.message.isprintable(), end.message


# --- .npz -------------------------------------------------------------------------------------------------------------


def member(header: bytes, body: bytes = b"", version=(1, 0)) -> bytes:
    size = len(header).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + size + header + body


def npz(path, content: bytes, name="points.npy", packing=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr(name, content)
    return path


def of_shape(shape: str, kind="<f4") -> bytes:
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()


HEADERS = {
    "parentheses": member(b"(" * 9000),
    "brackets": member(b"[" * 9990, version=(2, 0)),
    "a text without end": member(b'"""' + b"a" * 9000),
    "tildes": member(b"{'descr': " + b"~" * 9000 + b"1}"),
    "a type of types": member(of_shape("(1,)").replace(b"'<f4'", b"[('a', " * 300 + b"'<f4'" + b")]" * 300)),
    "digits": member(of_shape(f"({'9' * 5000},)")),
    "sides": member(of_shape(f"({'1,' * 3000})")),
    "a negative side": member(of_shape("(-1,)")),
    "of 200 MB": member(of_shape("(1,)") + b" " * (200 * MIB), bytes(4), (2, 0)),
    "of what is not there": member(b"x" * 9, version=(2, 0)),
    "calls": member(b"{'descr': __import__('os').system('id'), 'fortran_order': False, 'shape': (1,), }"),
}


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_that_is_a_program(tmp_path, header):
    path = npz(tmp_path / "a.npz", HEADERS[header])
    refused(lambda: read_arrays(path, ["points"]), InvalidContent, "has a header that is none of an array")
    refused(lambda: points_of_file(path), DatasetError, "a.npz has a header that is none of an array")


def test_values_without_bytes(tmp_path):
    """A billion texts of no letter take no byte in a file, and gigabytes as numbers."""
    path = npz(tmp_path / "a.npz", member(of_shape("(1000000000,)", "<U0")))
    refused(lambda: points_of_file(path), DatasetError, "more than 536870912 values")


def test_zeros_that_unpack_to_more_than_a_machine_should_give(tmp_path, monkeypatch):
    monkeypatch.setattr(base_arrays, "memory_limit", lambda: 128 * MIB)
    path = npz(tmp_path / "a.npz", member(of_shape(f"({20 * MIB},)"), bytes(80 * MIB)))
    assert path.stat().st_size < MIB
    refused(lambda: points_of_file(path), DatasetError, "more than half of the memory of this machine", mebibytes=32)


@pytest.fixture(scope="module")
def dust(tmp_path_factory):
    """An archive of many members without content."""
    path = tmp_path_factory.mktemp("dust") / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(30_000):
            archive.writestr(f"{number}.npy", b"")
    return path


def test_an_archive_of_thousands_of_members(dust):
    for read in (lambda: read_arrays(dust, ["points"]), lambda: names_in_npz(dust)):
        refused(read, InvalidContent, "more members than any .npz archive", mebibytes=4)


def test_packing_that_asks_for_gigabytes_of_memory(tmp_path):
    content = member(of_shape("(2,)"), bytes(8))
    for packing in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        path = npz(tmp_path / f"{packing}.npz", content, packing=packing)
        refused(lambda path=path: read_arrays(path, ["points"]), InvalidContent, "packs points as numpy does not")


def test_a_member_behind_a_password(tmp_path):
    data = bytearray(npz(tmp_path / "a.npz", member(of_shape("(2,)"), bytes(8))).read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    (tmp_path / "a.npz").write_bytes(data)
    refused(lambda: read_arrays(tmp_path / "a.npz", ["points"]), InvalidContent, "packs points as numpy does not")


@pytest.mark.parametrize("count", COUNTS)
def test_archives_changed_at_random(tmp_path, count):
    saved = io.BytesIO()
    np.savez_compressed(saved, points=np.arange(12.0).reshape(4, 3), y=np.array(["a", "bc"]))

    def read(changed):
        (tmp_path / "a.npz").write_bytes(changed)
        read_arrays(tmp_path / "a.npz", ["points", "y"])

    assert faults(read, saved.getvalue(), count, (InvalidContent,)) == []


# --- safetensors ------------------------------------------------------------------------------------------------------


def safetensors(text: bytes, body: bytes = b"") -> bytes:
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


LONG = {
    "lists": b'{"a":[' + b"[]," * (10 * MIB) + b"[]]}",
    "names": b"{"
    + b",".join(b'"%x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % n for n in range(300_000))
    + b"}",
    "notes": b'{"__metadata__":{' + b",".join(b'"%x":""' % n for n in range(2_000_000)) + b"}}",
}
SPEC = ModelSpec("small-mlp", (1, 8, 8), 10)


@pytest.mark.parametrize("kind", LONG)
def test_a_header_of_megabytes_in_a_file_or_a_blob(tmp_path, kind):
    data = safetensors(LONG[kind])
    (tmp_path / "a.safetensors").write_bytes(data)
    refused(lambda: points_of_file(tmp_path / "a.safetensors"), DatasetError, "the length of its header", mebibytes=16)
    refused(lambda: load_model(data), InvalidContent, "the length of its header is wrong", mebibytes=16)
    refused(lambda: shared_from_bytes(data, SPEC), DatasetError, "its header is too long", mebibytes=16)
    settings = KMeansSettings(k=2, dimensions=3, step=0.1)
    refused(lambda: KMeansState.from_bytes(data, settings), InvalidContent, "its header is too long", mebibytes=16)


@pytest.mark.parametrize("count", COUNTS)
def test_safetensors_changed_at_random(tmp_path, count):
    entry = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    data = safetensors(json.dumps({"points": entry}).encode(), bytes(24))

    def read(changed):
        (tmp_path / "a.safetensors").write_bytes(changed)
        read_arrays(tmp_path / "a.safetensors", ["points"])

    assert faults(read, data, count, (InvalidContent,)) == []


# --- files of public datasets -----------------------------------------------------------------------------------------


def test_a_dataset_s_file_that_is_larger_than_the_published_one(tmp_path):
    """An unzipped file whose checksum nobody published is read no further than it should reach."""
    (tmp_path / "fashion-mnist").mkdir()
    with (tmp_path / "fashion-mnist" / "train-images-idx3-ubyte").open("wb") as file:
        file.truncate(1 << 30)
    refused(lambda: load_dataset("fashion-mnist", tmp_path), DatasetError, "more than the 47040016 bytes")


# --- tables -----------------------------------------------------------------------------------------------------------


def a_long_text_in_every_row(path):
    """591 bytes: a dictionary of one text of 1.4 MB, which every row of a batch points to."""
    text = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 6000, pyarrow.int32()), ["x" * 1_400_000])
    table = pyarrow.table({"a": text, "y": [number % 2 for number in range(6000)]})
    parquet.write_table(table, path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 1000


def lists_of_lists(path):
    values = pyarrow.array([[[0] * 1000] * 1000] * 4)
    parquet.write_table(pyarrow.table({"a": values, "y": range(4)}), path)


def dust_of_sheets(path):
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(30_000):
            archive.writestr(f"{number}.xml", b"")


def of_text(head, repeated="", times=0):
    return lambda path: path.write_text(head + repeated * times)


TABLES = {
    "one line of 300 MB": ("a.csv", of_text("a,y\n", "1,", 150 * MIB), "a row has more than"),
    "no line at all": ("a.csv", of_text("", "1", 300 * MIB), "a row has more than"),
    "a row of many lines": ("a.csv", of_text("a,y\n", '"1\n",', 20 * MIB), "a row has more than"),
    "a cell without end": ("a.csv", of_text('a,y\n"', "1\n", 20 * MIB), "field larger than"),
    "a header without end": ("a.csv", of_text('"', "a\n", 20 * MIB), "field larger than"),
    "a text in every row": ("a.parquet", a_long_text_in_every_row, "a cell of more than 131072 bytes"),
    "lists of lists": ("a.parquet", lists_of_lists, "holds list<"),
    "a footer of gigabytes": ("a.parquet", lambda path: path.write_bytes(b"PAR1\xff\xff\xff\x7fPAR1"), "footer"),
    "a workbook of thousands of members": ("a.xlsx", dust_of_sheets, "is not a workbook"),
    "a pipe": ("a.csv", os.mkfifo, "a.csv is not a regular file"),
    "a device": ("a.csv", lambda path: path.symlink_to("/dev/zero"), "a.csv is not a regular file"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_that_is_a_bomb(tmp_path, kind):
    name, write, sentence = TABLES[kind]
    write(tmp_path / name)
    refused(lambda: draft_terms(tmp_path / name, "y"), DatasetError, sentence)


@pytest.mark.parametrize("count", COUNTS)
def test_parquet_changed_at_random(tmp_path, count):
    table = pyarrow.table({"a": [1.5, 2.5, 3.5, None], "b": ["x", "y", None, "x"], "y": [0, 1, 0, 1]})
    parquet.write_table(table, tmp_path / "a.parquet", compression="gzip")

    def read(changed):
        (tmp_path / "b.parquet").write_bytes(changed)
        draft_terms(tmp_path / "b.parquet", "y")

    assert faults(read, (tmp_path / "a.parquet").read_bytes(), count, (DatasetError,)) == []


def greedy(header, tensors, source, data):
    """A decoder that takes what it can get."""
    return {"text": str(len(bytearray(1 << 30)))}, {}


def test_what_no_bound_foresees_ends_a_process_of_its_own(tmp_path, monkeypatch):
    """Terms are drafted in a job with limits: a decoder that takes more ends it, and the command says a sentence."""
    (tmp_path / "a.csv").write_text("a,y\n1,2\n")
    monkeypatch.setattr(task_new, "_DRAFT", f"{__name__}:greedy")
    monkeypatch.setattr(task_new, "_DRAFT_MEMORY", 1 << 29)
    monkeypatch.setattr(task_new, "contained_fault", lambda: "so that the job can import this file")
    monkeypatch.setattr(runtime, "environment", lambda home: {**os.environ, "PYTHONPATH": str(ROOT)})
    with pytest.raises(CommandError, match=r"a\.csv takes more than"):
        task_new._drafted(tmp_path / "a.csv", {"target": "y", "format": {}})


# --- without what stops it --------------------------------------------------------------------------------------------


@pytest.mark.mutants
def test_without_the_bound_on_headers_a_blob_takes_hundreds_of_megabytes(monkeypatch):
    monkeypatch.setattr(tensor_views, "MAX_HEADER", 100_000_000)
    assert bounded(lambda: load_model(safetensors(LONG["lists"])), mebibytes=256) == TOO_MUCH


@pytest.mark.mutants
def test_without_a_bound_on_members_a_list_is_read_whole(dust, monkeypatch):
    monkeypatch.setattr(archives, "_PIECE", 1 << 40)
    tracemalloc.start()
    try:
        assert len(names_in_npz(dust)) == 30_000
        assert tracemalloc.get_traced_memory()[1] > 5 * dust.stat().st_size
    finally:
        tracemalloc.stop()


@pytest.mark.mutants
def test_without_a_header_of_its_own_numpy_raises_what_nobody_catches(tmp_path):
    path = npz(tmp_path / "a.npz", HEADERS["parentheses"])
    with pytest.raises(Exception, match=r"EOF in multi-line statement|too many nested parentheses") as fault:
        np.load(path)["points"]
    assert not isinstance(fault.value, ValueError | OSError)
