"""Explorers over one real run, and over copies that somebody has tampered with."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from node.explorer.cache import open_index
from node.explorer.index import Index
from node.explorer.server import make_app
from node.explorer.sources import DirectorySource, Source
from node.explorer.watch import Watch

HOME = "http://127.0.0.1"


@dataclass(frozen=True)
class Explorer:
    """An explorer that has read, surveyed and audited everything, and a client of its pages."""

    watch: Watch
    index: Index
    client: TestClient

    def page(self, path: str = "") -> str:
        answer = self.client.get("/" + path)
        assert answer.status_code == 200, answer.text
        return answer.text


@contextmanager
def exploring(source: Source, cache: Path) -> Iterator[Explorer]:
    with open_index(source, cache) as index, Watch(source, index) as watch:
        watch.settle()
        yield Explorer(watch, index, TestClient(make_app(watch), base_url=HOME))


@pytest.fixture(scope="session")
def explorer(run, tmp_path_factory) -> Iterator[Explorer]:
    """Over the untouched run."""
    with exploring(DirectorySource(run.directory), tmp_path_factory.mktemp("cache")) as made:
        yield made


@pytest.fixture
def kept(run, tmp_path) -> Path:
    """A private copy of the run's directory."""
    shutil.copytree(run.directory, tmp_path / "kept")
    return tmp_path / "kept"


def damage(path: Path) -> None:
    """Change one byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
