"""Whether rounds can close without those that drop out: what rounds of three to nine clients did."""

import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.demonstration import Spectators, demonstrate
from fedgrove.node.devnet.silence import Silence, check_drop
from fedgrove.node.scenario.reading import scenario


@pytest.mark.parametrize(("clients", "drop"), [(3, 0.3), (4, 0.2), (5, 0.2), (6, 0.2), (8, 0.25), (100, 0.2)])
def test_rounds_that_close_are_not_refused(clients, drop):
    assert check_drop(clients, drop) == ""


@pytest.mark.parametrize(
    ("clients", "drop", "sentence"),
    [
        (
            4,
            0.25,
            "0.25 leaves 3 of 4 clients, and no round can close: the sum of a round needs shares from 3 of the 3",
        ),
        (4, 0.25, "another's secret; give 5 clients, or let at most 0 drop out"),
        (7, 0.29, "give 8 clients, or let at most 1 drop out"),
        (6, 0.7, "another's secret; let at most 1 drop out"),
    ],
)
def test_what_no_round_survives_is_said_with_what_would_do(clients, drop, sentence):
    assert sentence in check_drop(clients, drop)


def test_it_is_said_before_the_work_starts(tmp_path):
    with pytest.raises(InvalidConfig, match=r"drop 0\.25 leaves 3 of 4 clients"):
        demonstrate(scenario(clients=4, rounds=2, drop=0.25), tmp_path / "out", Spectators(None))
    assert not (tmp_path / "out").exists()


def test_as_many_clients_are_silent_in_each_round_as_the_check_counts():
    silence = Silence(8, 0.25, 1)
    assert all(len(silence._schedule(number)) == 2 for number in range(1, 20))
