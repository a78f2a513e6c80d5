"""What keeps clients from drifting: the joint optimum is found, also where some of them drop out."""

import numpy as np
import pytest

from fedgrove.common.errors import InvalidContent
from fedgrove.node.learning.strategies.fedavg import FedAvg
from fedgrove.node.learning.strategies.fedcurv import FedCurv
from fedgrove.node.learning.strategies.feddyn import FedDyn
from fedgrove.node.learning.strategies.fedspeed import FedSpeed
from fedgrove.node.learning.strategies.scaffold import Scaffold
from tests.node.learning.strategies.quadratics import optimum, run


@pytest.mark.parametrize(
    ("strategy", "near"), [(FedDyn(0.3), 5e-3), (FedSpeed(0.3, rho=0.01), 0.02), (Scaffold(), 1e-4)]
)
def test_it_finds_the_joint_optimum_that_fedavg_drifts_away_from(strategy, near):
    rounds = [(0, 1)] * 25
    assert np.abs(run(FedAvg(), rounds)["w"] - optimum()).max() > 0.2
    assert np.abs(run(strategy, rounds)["w"] - optimum()).max() < near


@pytest.mark.parametrize(
    ("remembers", "forgets", "near"),
    [(FedDyn(1.0), FedDyn(1.0, forget=0.5), 1e-3), (Scaffold(), Scaffold(forget=0.5), 1e-4)],
)
def test_with_forgetting_clients_that_drop_out_cost_nothing_in_the_end(remembers, forgets, near):
    rounds, dropped = [(0, 1)] * 40, frozenset({(1, 0), (4, 0), (6, 1)})
    off, back = (run(each, rounds, dropped=dropped)["w"] - optimum() for each in (remembers, forgets))
    assert np.abs(off).max() > 0.01 and np.abs(back).max() < near


@pytest.mark.parametrize(
    ("strategy", "tensor"),
    [
        (FedCurv(), "fedcurv/fisher"),
        (FedDyn(), "feddyn/drift"),
        (FedSpeed(), "fedspeed/drift"),
        (Scaffold(), "scaffold/control"),
    ],
)
def test_a_global_model_without_what_is_sent_with_it_is_a_sentence(trained, weights, strategy, tensor):
    with pytest.raises(InvalidContent, match=f"tensor '{tensor}/conv1.weight' is missing"):
        trained(strategy, model=weights)
