"""Indexes are kept between runs, not for ever, and each belongs to one process at a time."""

import os

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.files import exclusive
from fedgrove.node.explorer import cache
from fedgrove.node.explorer.cache import open_index
from fedgrove.node.explorer.sources import DirectorySource


def old_index(root, digit: str, age: int, size: int = 10):
    """An index that was used ``age`` seconds before 2001."""
    path = root / (digit * 32)
    path.mkdir()
    (path / "index.sqlite").write_bytes(bytes(size))
    os.utime(path, (978_307_200 - age,) * 2)
    return path


def test_the_least_recently_used_index_goes_when_there_are_too_many_unless_a_process_has_it(run, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "MAX_INDEXES", 3)
    recent, older, oldest = (old_index(tmp_path, digit, age) for digit, age in (("b", 1), ("c", 2), ("a", 3)))
    other = tmp_path / "photographs"
    other.mkdir()
    with exclusive(oldest):
        os.utime(oldest, (978_307_200 - 3,) * 2)
        with open_index(DirectorySource(run.directory), tmp_path):
            pass
        assert oldest.is_dir()
    with open_index(DirectorySource(run.directory), tmp_path):
        pass
    assert recent.is_dir() and older.is_dir() and other.is_dir() and not oldest.exists()


def test_indexes_that_are_too_large_together_go(run, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "MAX_BYTES", 1 << 20)
    small, large = old_index(tmp_path, "a", 1), old_index(tmp_path, "b", 2, 1 << 20)
    with open_index(DirectorySource(run.directory), tmp_path):
        pass
    assert small.is_dir() and not large.exists()


def test_who_comes_second_gets_an_index_of_its_own(run, tmp_path):
    source = DirectorySource(run.directory)
    with open_index(source, tmp_path) as first, open_index(source, tmp_path) as second:
        with first.connection() as one, second.connection() as other:
            assert one is not other
        assert len(list(tmp_path.iterdir())) == 1
        second.add(run.history)
        assert first.head() == run.history.first_block - 1


def test_a_cache_that_cannot_be_written_is_done_without(run, tmp_path):
    (tmp_path / "file").touch()
    with open_index(DirectorySource(run.directory), tmp_path / "file") as index:
        assert index.add(run.history)


def test_what_fails_while_an_index_is_open_is_not_taken_for_a_fault_of_the_cache(run, tmp_path):
    with pytest.raises(PermissionError, match="of the caller"), open_index(DirectorySource(run.directory), tmp_path):
        raise PermissionError("of the caller")


def test_a_user_without_a_home_has_an_index_that_goes_with_the_process(run, monkeypatch):
    def none() -> None:
        raise InvalidInput

    monkeypatch.setattr(cache, "cache_folder", none)
    with open_index(DirectorySource(run.directory)) as index:
        assert index is not None
