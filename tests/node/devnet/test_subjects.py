"""Terms and data of who clusters points, or finds who is alike; ``test_setup`` and ``test_demo`` look at all others."""

import numpy as np
import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.devnet.points import PointsSubject
from fedgrove.node.devnet.subjects import DatasetSubject
from fedgrove.node.devnet.terms import ledger_rounds
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.methods.kmeans.datasets import dealt
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.terms import parse_config
from fedgrove.node.scenario.reading import scenario


@pytest.fixture
def founded(tmp_path):
    """The terms of a subject, as everybody reads them, for a founder."""

    def found(subject, plan, keys):
        config, _ = subject.found(plan, DiskStore(tmp_path), keys)
        assert parse_config(config.to_bytes()) == config
        return config

    return found


def test_who_clusters_has_points_and_nobody_evaluates(founded):
    points = dealt("mine", np.random.default_rng(0).uniform(-1, 1, (40, 2)), 3, clients=4)
    subject = PointsSubject(points, gather_blocks=7)
    config = founded(subject, scenario(clients=4, rounds=50, k=3, seed=7), Keys.generate())
    assert (config.method.k, config.method.dimensions, config.method.gather_blocks) == (3, 2, 7)
    assert config.task is None and config.federation.rounds == 50 and config.federation.name == "gaussian demo"
    assert np.array_equal(np.concatenate(subject.parts(config)), points.points) and subject.test(config) is None


def test_who_is_to_find_who_is_alike_comes_in_groups_and_the_coordinator_counts(founded):
    plan = scenario(clients=8, rounds=4, strategy="fedavg", method="procfl, seats = 3")
    subject, keys = DatasetSubject(load_dataset("digits")), Keys.generate()
    config = founded(subject, plan, keys)
    assert config.method == ProCflTerms(alpha=0.5, seats=3, counter=keys.mailbox_public.hex(), signer=keys.address)
    assert config.federation.rounds == 4 + 3 and ledger_rounds(plan) == 4 + 3
    common = [{label for label in range(10) if (part.y == label).sum() > 10} for part in subject.parts(config)]
    assert common == [set(range(5)), set(range(5, 10))] * 4
