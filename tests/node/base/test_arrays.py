"""Arrays out of files that are damaged, or lie."""

import io
import os
import zipfile

import numpy as np
import pytest
from numpy.lib import format as npy
from safetensors.numpy import save_file

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.arrays import read_arrays


def header_of(shape, dtype="<f4"):
    file = io.BytesIO()
    npy.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": dtype})
    return file.getvalue()


def archive(path, **members):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def test_arrays_come_back_as_they_were_saved(tmp_path):
    saved = {"x": np.arange(6.0).reshape(2, 3), "y": np.array([1, 2]), "z": np.zeros((0, 4), np.uint8)}
    saved["f"] = np.asfortranarray(saved["x"])
    saved |= {"text": np.array(["ä", "bcd"]), "bytes": np.array([b"ab"]), "time": np.array(["2020-01-01"], "M8[D]")}
    saved |= {"one": np.array(3.5), "truth": np.array([True]), "big": np.arange(3, dtype=">i4")}
    np.savez_compressed(tmp_path / "a.npz", **saved)
    found = read_arrays(tmp_path / "a.npz", [*saved, "missing"])
    assert found.keys() == saved.keys()
    assert all(np.array_equal(found[name], saved[name]) and found[name].dtype == saved[name].dtype for name in saved)


def test_of_a_safetensors_file_the_same_arrays_come_back(tmp_path):
    saved = {"x": np.arange(6.0).reshape(2, 3), "y": np.array([1, 2]), "other": np.zeros(3, np.uint8)}
    save_file(saved, tmp_path / "a.safetensors")
    found = read_arrays(tmp_path / "a.safetensors", ["x", "y", "missing"])
    assert found.keys() == {"x", "y"} and all(np.array_equal(found[name], saved[name]) for name in found)
    with pytest.raises(InvalidContent, match="more than 5 values in x"):
        read_arrays(tmp_path / "a.safetensors", ["x"], most=5)
    (tmp_path / "b.safetensors").write_bytes(b"garbage" * 9)
    with pytest.raises(InvalidContent, match="is not a file of arrays"):
        read_arrays(tmp_path / "b.safetensors", ["x"])


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }",
        "{'descr':'<f8','fortran_order':True,'shape':(2,)}",
        '{"descr": "<f8", "fortran_order": False, "shape": (2,)}\n',
    ],
)
def test_headers_of_other_writers_are_read(tmp_path, header):
    text = header.encode()
    data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + np.array([1.0, 2.0]).tobytes()
    assert read_arrays(archive(tmp_path / "a.npz", x=data), ["x"])["x"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 62,), (3,)], ids=["4 TiB", "more than memory has", "one too many"])
def test_an_array_that_claims_more_than_there_is_takes_no_memory(tmp_path, shape):
    path = archive(tmp_path / "a.npz", x=header_of(shape) + bytes(8))
    with pytest.raises(InvalidContent, match=r"claims \d+ bytes for x, but has 8"):
        read_arrays(path, ["x"])


def test_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([{}], dtype=object))
    with pytest.raises(InvalidContent, match="Python objects in x, which are never unpickled") as fault:
        read_arrays(tmp_path / "a.npz", ["x"])
    assert "allow_pickle" not in str(fault.value)


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04garbage", bytes(1000)])
def test_what_is_no_archive_is_a_sentence_that_does_not_advise_pickle(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(InvalidContent, match=r"numpy\.savez|write it again") as fault:
        read_arrays(tmp_path / "a.npz", ["x"])
    assert "pickle" not in str(fault.value)


def test_a_pipe_is_not_waited_for_and_a_device_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "zero.npz").symlink_to("/dev/zero")
    for name in ("pipe.npz", "zero.npz"):
        with pytest.raises(InvalidContent, match="not a regular file"):
            read_arrays(tmp_path / name, ["x"])


def test_members_that_are_damaged_are_a_sentence(tmp_path):
    for content in (b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff{", header_of((2,), "<f4")[:-20]):
        with pytest.raises(InvalidContent, match="write it again"):
            read_arrays(archive(tmp_path / "a.npz", x=content), ["x"])
    np.savez_compressed(tmp_path / "b.npz", x=np.arange(1000))
    damaged = bytearray((tmp_path / "b.npz").read_bytes())
    damaged[300:340] = bytes(40)
    (tmp_path / "b.npz").write_bytes(damaged)
    with pytest.raises(InvalidContent, match="write it again"):
        read_arrays(tmp_path / "b.npz", ["x"])
