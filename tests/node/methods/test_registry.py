"""Each method has its entry in every room that runs it, and an answer where it is not run."""

import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.methods import RUNNERS
from fedgrove.node.methods.registry import METHODS
from fedgrove.node.scenario import methods as scenarios
from fedgrove.node.scenario.reading import scenario
from fedgrove.node.simulation.checks import check_simulated
from fedgrove.node.simulation.kinds import KINDS

CHOICES = ("training", *scenarios.METHODS)


def test_every_method_of_a_federation_can_be_asked_for_and_run_on_this_machine():
    assert {kind.name for kind in METHODS} == set(RUNNERS) <= set(CHOICES)


@pytest.mark.parametrize("name", CHOICES)
def test_every_method_that_can_be_asked_for_is_simulated_or_says_why_not(name):
    asked = scenario(clients=8, rounds=2, method=name)
    if name in KINDS:
        check_simulated(asked)
        return
    with pytest.raises(InvalidConfig, match=f"^{name} {asked.method.unsimulated[:20]}"):
        check_simulated(asked)
