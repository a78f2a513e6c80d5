"""Where files of the user's are kept."""

from pathlib import Path

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.files import cache_folder


@pytest.fixture
def no_home(monkeypatch):
    """A user without HOME and without an entry in the password database, as in a container."""
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", nobody)


def test_a_user_without_a_home_is_asked_for_a_cache_folder(no_home, monkeypatch, tmp_path):
    with pytest.raises(InvalidInput, match="no home folder: set XDG_CACHE_HOME"):
        cache_folder()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "fedgrove"


def test_the_cache_is_in_the_users_home(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/fedgrove")
