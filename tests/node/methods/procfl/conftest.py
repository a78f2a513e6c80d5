"""The arena of the mutants, in the two sizes."""

import pytest

from tests.node.methods.procfl.arena import Arena

MANY = pytest.mark.statistics
COUNTS = [200, pytest.param(3000, marks=MANY)]


@pytest.fixture(params=COUNTS)
def arena(story, request) -> Arena:
    return Arena(story, request.param)
