"""All runs of the matrix, each made once, by the first test that asks for it."""

from collections.abc import Iterator

import pytest

from tests.matrix.kinds import Runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Iterator[Runs]:
    made = Runs(tmp_path_factory.mktemp("matrix"))
    yield made
    made.close()


@pytest.fixture(scope="module", autouse=True)
def short_lists() -> Iterator[None]:
    """Lists of rounds are cut into pages of one, so that further pages are there."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("export", "views.rounds"):
            patch.setattr(f"fedgrove.node.explorer.{module}.ROUNDS_A_PAGE", 1)
        yield
