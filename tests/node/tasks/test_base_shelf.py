"""Copies of frozen bases: nothing is shown to a task but what the terms name, whatever files and stores do."""

import os

import pytest

from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.directory import DirectoryEntry, encode_directory
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.frozen_base import FrozenBase
from fedgrove.node.tasks import base_shelf
from fedgrove.node.tasks.base_content import content_of, publish_base
from fedgrove.node.tasks.base_shelf import BaseShelf, BaseSources
from fedgrove.node.tasks.names import InvalidBundle
from tests.node.tasks.folders import write

MIB = 1 << 20
FILES = {"config.json": b"{}", "weights/a.bin": os.urandom(2 * MIB + 3), "empty": b""}


@pytest.fixture
def place(tmp_path):
    """A folder and a file that are bases."""
    write(tmp_path / "folder", FILES)
    (tmp_path / "file.gguf").write_bytes(os.urandom(MIB + 5))
    return tmp_path


def named(path, name="mine") -> FrozenBase:
    found = content_of(path)
    return FrozenBase(name, str(found.cid), found.size)


def contents(path):
    if path.is_file():
        return path.read_bytes()
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


@pytest.mark.parametrize("source", ["folder", "file.gguf"])
def test_a_copy_is_made_of_a_path_and_remembered(place, source):
    base = named(place / source)
    write(place / "folder", {".hidden": b"not part of it"})
    shelf = BaseShelf(place / "client")
    path = shelf.open(base, BaseSources({"mine": place / source}))
    expected = FILES if source == "folder" else (place / source).read_bytes()
    assert contents(path) == expected and path.name == base.cid
    assert not any(each.stat().st_mode & 0o222 for each in [path, *path.rglob("*")])
    (place / source).rename(place / "gone")
    assert contents(BaseShelf(place / "client").open(base, BaseSources({}))) == expected


@pytest.mark.parametrize("source", ["folder", "file.gguf"])
def test_a_copy_is_made_of_what_the_store_has(place, source):
    base, store = named(place / source), DiskStore(place / "store")
    publish_base(place / source, base, store)
    path = BaseShelf(place / "client").open(base, BaseSources({}, store))
    assert contents(path) == contents(place / source)


def test_a_base_that_differs_by_one_byte_is_refused_and_nothing_is_kept(place):
    base = named(place / "folder")
    for data, sentence in ((b"{]", "its content has the CID"), (b"{", "it has 2097156 bytes, not 2097157")):
        (place / "folder/config.json").write_bytes(data)
        with pytest.raises(InvalidBundle, match=sentence):
            BaseShelf(place / "client").open(base, BaseSources({"mine": place / "folder"}))
        assert [*(place / "client/bases").iterdir()] == []


def test_what_is_missing_or_not_named_is_a_sentence(place):
    shelf, base = BaseShelf(place / "client"), named(place / "folder")
    with pytest.raises(InvalidBundle, match="the task needs the base mine: give --base mine=PATH"):
        shelf.open_all([base], BaseSources({}))
    with pytest.raises(InvalidBundle, match="the task has no base other; it has mine: correct --base"):
        shelf.open_all([base], BaseSources({"other": place}))
    with pytest.raises(InvalidBundle, match=r"the store does not have the base mine \(.*\): give --base mine=PATH"):
        shelf.open_all([base], BaseSources({}, DiskStore(place / "store")))


@pytest.mark.parametrize("harm", ["byte", "more", "less", "hidden", "link"])
def test_a_copy_that_was_altered_is_made_again(place, harm):
    base, sources = named(place / "folder"), BaseSources({"mine": place / "folder"})
    shelf = BaseShelf(place / "client")
    path = shelf.open(base, sources)
    for folder in (path, path / "weights"):
        folder.chmod(0o755)
    if harm == "byte":
        (path / "config.json").chmod(0o644)
        (path / "config.json").write_bytes(b"[]")
    elif harm == "link":
        (path / "config.json").unlink()
        (path / "config.json").symlink_to(place / "folder/config.json")
    elif harm == "less":
        (path / "empty").unlink()
    else:
        (path / (".hidden" if harm == "hidden" else "more")).write_bytes(b"")
    assert contents(shelf.open(base, sources)) == FILES
    assert not (path / "config.json").is_symlink()


def test_a_link_in_place_of_a_copy_is_not_followed(place):
    base = named(place / "folder")
    (place / "client/bases").mkdir(parents=True)
    (place / "client/bases" / base.cid).symlink_to(place / "folder")
    path = BaseShelf(place / "client").open(base, BaseSources({"mine": place / "folder"}))
    assert not path.is_symlink() and (place / "folder/config.json").exists()


def test_a_source_that_changes_after_it_was_copied_changes_no_copy(place):
    base = named(place / "folder")
    path = BaseShelf(place / "client").open(base, BaseSources({"mine": place / "folder"}))
    (place / "folder/config.json").write_bytes(b"[]")
    assert contents(path) == FILES


def test_a_source_that_changes_while_it_is_copied_is_refused(place, monkeypatch):
    base = named(place / "file.gguf")
    write_files = base_shelf.write_files

    def slow(part, files):
        with (place / "file.gguf").open("r+b") as other:
            other.seek(MIB + 1)
            other.write(b"\0\0\0\0")
        write_files(part, files)

    monkeypatch.setattr(base_shelf, "write_files", slow)
    with pytest.raises(InvalidBundle, match="its content has the CID"):
        BaseShelf(place / "client").open(base, BaseSources({"mine": place / "file.gguf"}))


class LyingStore(DiskStore):
    """Serves other bytes than it is asked for, as many or many more."""

    more = 0

    def stream(self, digest, max_bytes):
        for piece in super().stream(digest, max_bytes):
            yield bytes(len(piece))
        for _ in range(self.more):
            yield bytes(MIB)


@pytest.mark.parametrize(("more", "sentence"), [(0, "its content has the CID"), (10_000, "more than .* bytes")])
def test_a_store_that_serves_other_bytes_is_not_believed(place, more, sentence):
    base, store = named(place / "folder"), LyingStore(place / "store")
    publish_base(place / "folder", base, store)
    store.more = more
    with pytest.raises(InvalidBundle, match=sentence):
        BaseShelf(place / "client").open(base, BaseSources({}, store))
    assert [*(place / "client/bases").iterdir()] == []


def test_terms_that_name_less_than_the_store_has_fetch_no_more_than_they_name(place):
    store = DiskStore(place / "store")
    publish_base(place / "folder", named(place / "folder"), store)
    small = FrozenBase("mine", str(content_of(place / "folder").cid), 1000)
    with pytest.raises(InvalidBundle, match=r"at most \d+ are allowed"):
        BaseShelf(place / "client").open(small, BaseSources({}, store))


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "lib.so"])
def test_a_stored_folder_with_odd_names_writes_nothing(place, name):
    store = DiskStore(place / "store")
    store.put(b"data")
    block = encode_directory([DirectoryEntry(name, cid_of(b"data"), 4)])
    store.put(block)
    root = CID.of_block(block, 0x70)
    with pytest.raises(InvalidBundle, match="is not the base mine"):
        BaseShelf(place / "client").open(FrozenBase("mine", str(root), 4), BaseSources({}, store))
    assert not (place / "up").exists() and [*(place / "client/bases").iterdir()] == []


def test_what_a_killed_process_left_is_removed(place):
    base = named(place / "folder")
    left = place / "client/bases" / f".{base.cid}.0123"
    write(left, {"part": b"x"})
    left.chmod(0o555)
    BaseShelf(place / "client").open(base, BaseSources({"mine": place / "folder"}))
    assert [path.name for path in (place / "client/bases").iterdir()] == [base.cid]
