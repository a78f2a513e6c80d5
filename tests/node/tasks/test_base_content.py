"""Frozen bases measured: the CIDs of the store, a MiB at a time, and sentences for what is no base."""

import os
import tracemalloc
from threading import Thread

import pytest

from fedgrove.ipfs.directory import folder_nodes
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.frozen_base import FrozenBase, check_bases
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.tasks.base_content import compare, content_of, publish_base
from fedgrove.node.tasks.names import MAX_FILES, InvalidBundle
from tests.node.tasks.folders import write

MIB = 1 << 20
FILES = {"config.json": b"{}", "weights/a.bin": b"a" * (2 * MIB + 3), "weights/more/b.bin": b"", "vocab.txt": b"x\n"}
CID = "b" + "a" * 58


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 7])
def test_a_file_has_the_cid_of_the_store(tmp_path, size):
    data = os.urandom(size)
    (tmp_path / "base").write_bytes(data)
    found = content_of(tmp_path / "base")
    assert (found.cid, found.size) == (cid_of(data), size)


def test_a_folder_has_the_cid_of_the_store_whatever_its_times_and_hidden_files(tmp_path):
    folder = write(tmp_path / "base", {**FILES, ".git/config": b"x", "weights/.cache": b"y"})
    found = content_of(folder)
    assert found.cid == [*folder_nodes(FILES)][-1].entry.cid
    assert found.size == sum(map(len, FILES.values()))


def test_one_byte_or_one_name_makes_another_base(tmp_path):
    cid = content_of(write(tmp_path / "one", FILES)).cid
    changed = {**FILES, "weights/a.bin": b"b" + FILES["weights/a.bin"][1:]}
    renamed = {("config2.json" if path == "config.json" else path): data for path, data in FILES.items()}
    for number, files in enumerate((changed, renamed)):
        assert content_of(write(tmp_path / str(number), files)).cid != cid


def test_a_large_file_is_measured_in_little_memory(tmp_path):
    with (tmp_path / "base").open("wb") as file:
        file.truncate(256 * MIB)
    tracemalloc.start()
    try:
        assert content_of(tmp_path / "base").size == 256 * MIB
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_a_base_in_a_store_is_the_base_and_stays_through_garbage_collection(tmp_path):
    folder = write(tmp_path / "base", FILES)
    found = content_of(folder)
    store = DiskStore(tmp_path / "store")
    publish_base(folder, FrozenBase("mine", str(found.cid), found.size), store)
    store.collect_garbage()
    for node in folder_nodes(FILES):
        assert store.fetch(node.entry.cid.digest, 1 << 30) == node.data


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda base: None, "cannot read the base .*: No such file"),
        (lambda base: base.mkdir(), "there is no file in it"),
        (lambda base: os.mkfifo(base), "no regular file"),
        (lambda base: base.symlink_to("/dev/zero"), "no regular file"),
        (lambda base: write(base, {"a": b"1"}) and (base / "link").symlink_to(base / "a"), "is a link or no regular"),
        (lambda base: write(base, {"a": b"1"}) and (base / "up").symlink_to("/etc"), "is a link or no regular file"),
        (lambda base: write(base, {"a b": b"1"}), "'?a b'? cannot name"),
        (lambda base: write(base, {"libtorch.so": b"1"}), "is compiled"),
        (lambda base: write(base, {f"{number}": b"" for number in range(MAX_FILES + 1)}), f"more than {MAX_FILES}"),
        (lambda base: write(base, {"a": b"12345", "b": b"678901"}), "has more than 10 bytes"),
    ],
)
def test_what_is_no_base_is_refused_in_a_sentence(tmp_path, make, sentence):
    make(tmp_path / "base")
    with pytest.raises(InvalidBundle, match=sentence):
        content_of(tmp_path / "base", 10)


def test_a_file_that_grows_while_it_is_read_is_refused_and_read_no_further(tmp_path):
    path = tmp_path / "base"
    path.write_bytes(bytes(4 * MIB))
    with pytest.raises(InvalidBundle, match=r"had 4194304 bytes and \d+ were read|has more than"):
        _measured_while_it_grows(path)


def _measured_while_it_grows(path):
    growing = True

    def grow():
        with path.open("ab", buffering=0) as file:
            while growing and file.tell() < 512 * MIB:
                file.write(bytes(8 * MIB))

    thread = Thread(target=grow)
    try:
        with path.open("rb"):
            content = _Slow(path, thread)
            return content.measure()
    finally:
        growing = False
        thread.join()


class _Slow:
    """Starts the writer when the first chunk has been read."""

    def __init__(self, path, thread):
        self._path, self._thread = path, thread

    def measure(self):
        from fedgrove.node.tasks import base_content

        files = base_content.base_files(self._path, 64 * MIB)
        pieces = next(files).chunks
        count = len(next(pieces))
        self._thread.start()
        while os.stat(self._path).st_size <= 4 * MIB:
            pass
        return count + sum(map(len, pieces))


def test_a_difference_names_size_or_cid():
    with pytest.raises(InvalidBundle, match="x is not the base mine of the terms: it has 5 bytes, not 7"):
        compare(FrozenBase("mine", CID, 7), content_of_bytes(5), "x")
    with pytest.raises(InvalidBundle, match=f"its content has the CID bafk.*, not {CID}"):
        compare(FrozenBase("mine", CID, 5), content_of_bytes(5), "x")


def content_of_bytes(size):
    from fedgrove.node.tasks.base_content import BaseContent

    return BaseContent(cid_of(bytes(size)), size)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (("../up", CID, 1), "name must be"),
        (("", CID, 1), "name must be"),
        (("a.", CID, 1), "name must be"),
        (("a/b", CID, 1), "name must be"),
        (("a", "/etc/passwd", 1), "cid must be"),
        (("a", CID, 0), "size must be from 1"),
        (("a", CID, 1 << 41), "size must be from 1"),
    ],
)
def test_terms_name_bases_strictly(values, sentence):
    with pytest.raises(InvalidConfig, match=sentence):
        FrozenBase(*values)


def test_two_bases_have_two_names():
    with pytest.raises(InvalidConfig, match="names of their own"):
        check_bases([FrozenBase("a", CID, 1), FrozenBase("A", CID, 2)])
    with pytest.raises(InvalidConfig, match="at most 16"):
        check_bases([FrozenBase(f"a{number}", CID, 1) for number in range(17)])
