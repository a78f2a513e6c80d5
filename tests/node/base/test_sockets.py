"""Sockets find a folder however long the path of the one for temporary files is."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fedgrove.node.base import sockets
from fedgrove.node.base.sockets import socket_root

POOL = """
from fedgrove.node.base.process_pool import process_pool

if __name__ == "__main__":
    with process_pool(1, False, ["json"]) as pool:
        print(pool.submit(len, "four").result())
"""


@pytest.fixture
def long_folder(tmp_path):
    """A folder for temporary files whose path leaves a socket no room."""
    folder = tmp_path / (110 * "x")
    folder.mkdir()
    return folder


def test_the_folder_for_temporary_files_is_used_where_there_is_room(tmp_path_factory, monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        assert socket_root() == short


def test_another_is_used_where_its_path_is_too_long(long_folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(long_folder))
    with tempfile.TemporaryDirectory(dir=socket_root()) as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(Path(folder) / "socket"))


def test_without_any_that_is_short_enough_a_sentence_asks_for_one(long_folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(long_folder))
    monkeypatch.setattr(sockets, "_OTHERS", ())
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with pytest.raises(OSError, match="set TMPDIR to a folder with a path of at most 60 bytes"):
        socket_root()


def test_a_pool_works_with_a_long_path(long_folder, tmp_path):
    (tmp_path / "user.py").write_text(POOL)
    variables = {**os.environ, "TMPDIR": str(long_folder)}
    command = [sys.executable, str(tmp_path / "user.py")]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
