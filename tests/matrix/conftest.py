"""All runs of the matrix, each made once, by the first test that asks for it."""

from collections.abc import Iterator

import pytest

from tests.matrix.kinds import Runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Iterator[Runs]:
    made = Runs(tmp_path_factory.mktemp("matrix"))
    yield made
    made.close()
