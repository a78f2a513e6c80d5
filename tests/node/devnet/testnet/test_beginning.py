"""What a testnet begins with, where clients cluster points or find who is alike; ``test_setup`` looks at all others."""

import numpy as np

from fedgrove.node.devnet.terms import ledger_rounds
from fedgrove.node.devnet.testnet.beginning import beginning
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.methods.kmeans.datasets import dealt
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.terms import parse_config
from fedgrove.node.scenario.reading import scenario

SIGNER = "0x" + 20 * "a5"


def test_who_clusters_has_points_and_nobody_evaluates():
    points = dealt("mine", np.random.default_rng(0).uniform(-1, 1, (40, 2)), 3, clients=4)
    begun = beginning(scenario(clients=4, rounds=50, k=3, seed=7), points, bytes(32), SIGNER)
    assert begun.config.method.k == 3 and begun.config.method.dimensions == 2 and begun.config.model is None
    assert begun.config.federation.rounds == 50 and begun.config.federation.name == "gaussian demo"
    assert parse_config(begun.config.to_bytes()) == begun.config
    assert [list(arrays) for arrays in begun.parts] == [["points"]] * 4
    assert np.array_equal(np.concatenate([arrays["points"] for arrays in begun.parts]), points.points)
    assert not begun.test and not begun.shared


def test_who_is_to_find_who_is_alike_comes_in_groups_and_the_coordinator_counts():
    plan = scenario(clients=8, rounds=4, strategy="fedavg", method="procfl, seats = 3")
    begun = beginning(plan, load_dataset("digits"), bytes(range(32)), SIGNER)
    assert begun.config.method == ProCflTerms(alpha=0.5, seats=3, counter=bytes(range(32)).hex(), signer=SIGNER)
    assert begun.config.federation.rounds == 4 + 3 and ledger_rounds(plan) == 4 + 3
    assert parse_config(begun.config.to_bytes()) == begun.config
    common = [{label for label in range(10) if (arrays["y_train"] == label).sum() > 10} for arrays in begun.parts]
    assert common == [set(range(5)), set(range(5, 10))] * 4
    assert set(begun.test) == {"x_test", "y_test"}


def test_members_of_a_testnet_evaluate_and_train_as_those_of_a_demonstration():
    plan = scenario(clients=3, rounds=4, held_out=0.25, patience=2, masking="pairwise", portable=True)
    config = beginning(plan, load_dataset("digits"), bytes(32), SIGNER).config
    assert config.evaluation.held_out == 0.25 and config.federation.patience == 2
    assert config.masking.mode == "pairwise" and config.training.portable
