"""A folder is written as a whole or not at all, and nobody changes it by accident."""

import os

import pytest

from fedgrove.node.tasks.folder import read_folder, remove_folder, write_folder
from fedgrove.node.tasks.names import InvalidBundle
from tests.node.tasks.folders import FILES, write


def test_what_is_written_is_read_back_and_is_read_only(tmp_path):
    write_folder(tmp_path / "got", FILES)
    assert read_folder(tmp_path / "got", leave_out=lambda name: False) == FILES
    modes = {path.stat().st_mode & 0o777 & ~0o44 for path in (tmp_path / "got").rglob("*") if path.is_file()}
    assert modes == {0o400}
    for place in (tmp_path / "got", tmp_path / "got" / "layers"):
        assert place.stat().st_mode & 0o222 == 0
    assert os.listdir(tmp_path) == ["got"]


@pytest.mark.parametrize("step", [2, len(FILES) + 2], ids=["a file", "a folder"])
def test_a_failure_leaves_nothing(tmp_path, monkeypatch, step):
    done = []

    def fail(*_):
        done.append(1)
        if len(done) == step:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(InvalidBundle, match="No space left on device; choose another place"):
        write_folder(tmp_path / "got", FILES)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["file", "folder", "empty folder", "link", "dangling link"])
def test_what_is_there_is_never_replaced(tmp_path, kind):
    target = tmp_path / "got"
    make = {
        "file": lambda: target.write_text("mine"),
        "folder": lambda: write(target, {"mine": b""}),
        "empty folder": target.mkdir,
        "link": lambda: target.symlink_to("/tmp"),
        "dangling link": lambda: target.symlink_to("nowhere"),
    }
    make[kind]()
    with pytest.raises(InvalidBundle, match="exists already"):
        write_folder(target, FILES)
    assert os.listdir(tmp_path) == ["got"]


def test_no_place_to_write_is_one_sentence(tmp_path):
    with pytest.raises(InvalidBundle, match=r"cannot write .*: No such file or directory"):
        write_folder(tmp_path / "no" / "such", FILES)


def test_removing_follows_no_link(tmp_path):
    away = write(tmp_path / "away", {"mine": b"", "deep/mine": b""})
    modes = away.stat().st_mode, (away / "deep").stat().st_mode
    write_folder(tmp_path / "got", FILES)
    (tmp_path / "got").chmod(0o700)
    (tmp_path / "got" / "link").symlink_to(away)
    (tmp_path / "link").symlink_to(away)
    for name in ("got", "link", "nothing"):
        remove_folder(tmp_path / name)
    assert os.listdir(tmp_path) == ["away"] and len(read_folder(away)) == 2
    assert (away.stat().st_mode, (away / "deep").stat().st_mode) == modes
