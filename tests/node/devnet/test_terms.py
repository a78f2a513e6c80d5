"""What federations on this machine can run of a scenario, and what not."""

from unittest.mock import Mock

import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.demonstration import Spectators, demonstrate
from fedgrove.node.devnet.methods import check_federation
from fedgrove.node.devnet.terms import ledger_rounds
from fedgrove.node.scenario.reading import scenario

SIGNER = "0x" + 20 * "a5"


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ({"clients": 2}, "scenario.clients must be a whole number from 3 to 1000, not 2"),
        ({"rounds": 20_000}, "federation.rounds must be a whole number from 1 to 10000"),
        ({"clients": 5, "method": "procfl"}, "scenario.clients must be 6 or more with method, not 5"),
        ({"clients": 401, "method": "procfl"}, "scenario.clients must be at most 400 with method"),
        ({"clients": 9, "method": "procfl", "epsilon": 8.0}, "privacy cannot be combined with method"),
        ({"clients": 9, "method": "ifca"}, "method must be one of training, procfl, kmeans: ifca is simulated only"),
        ({"clients": 4, "drop": 0.25}, "scenario.drop 0.25 leaves 3 of 4 clients"),
    ],
)
def test_what_cannot_run_is_refused_in_a_sentence(named, sentence):
    with pytest.raises(InvalidConfig, match=sentence):
        check_federation(scenario(**named))


@pytest.mark.parametrize("named", [{}, {"clients": 6, "method": "procfl"}, {"clients": 400, "method": "procfl"}])
def test_what_can_run_is_not_refused(named):
    check_federation(scenario(**named))


def test_comparisons_come_before_the_rounds_that_train_and_the_coordinator_counts():
    asked = ("training", "procfl", "procfl, seats = 3")
    assert [ledger_rounds(scenario(rounds=10, clients=8, method=each)) for each in asked] == [10, 12, 13]
    told = scenario(clients=8, method="procfl, seats = 3, rule = { test = 'gap' }")
    terms = told.method.terms(bytes(range(32)), SIGNER)
    assert (terms.seats, terms.rule.test, terms.counter_key, terms.signer) == (3, "gap", bytes(range(32)), SIGNER)


def test_rounds_on_request_are_no_demonstration(tmp_path):
    with pytest.raises(InvalidConfig, match="must not be kmeans: its rounds are held on request"):
        demonstrate(scenario(k=3), tmp_path / "out", Spectators(Mock()))
