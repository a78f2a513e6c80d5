"""Windows of a round on one machine."""

from dataclasses import replace

import numpy as np
import pytest

from fedgrove.node.devnet.clusters import comparing_seconds, judging_seconds
from fedgrove.node.devnet.subjects import training_seconds
from fedgrove.node.devnet.testnet.windows import windows
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import ModelSpec, TrainingSettings
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings, StrategySettings

COSTLY = ("draw_window", "seal_window", "share_window", "commit_window")


@pytest.mark.parametrize("clients", [3, 12, 99])
@pytest.mark.parametrize("block_seconds", [0.1, 1.0, 60.0])
def test_a_stand_by_has_time_to_act_after_the_coordinators_grace(clients, block_seconds):
    settings = windows(clients, block_seconds, 2.0)
    # A stand-by's lot leaves the coordinator and other stand-bys up to another grace.
    assert 2 * settings.coordinator_grace + 3 < settings.recover_window


@pytest.mark.parametrize("block_seconds", [0.1, 0.5, 1.0, 60.0])
def test_no_phase_is_shorter_than_it_takes_to_find_a_transaction_in_a_block(block_seconds):
    settings = windows(3, block_seconds, 0.0)
    assert all(getattr(settings, name) >= 4 for name in COSTLY)


def test_more_clients_and_more_training_get_more_time():
    few, many, slow = windows(4, 1.0, 1.0), windows(40, 1.0, 1.0), windows(4, 1.0, 30.0)
    assert few.draw_window < many.draw_window and few.commit_window < many.commit_window
    assert slow.commit_window >= few.commit_window + 29
    assert slow.draw_window == few.draw_window


def test_where_clients_cluster_rounds_wait_longer_for_a_process_and_comparisons_get_their_time():
    usual, patient = windows(8, 0.5, 1.0), windows(8, 0.5, 1.0, patient=True)
    assert all(getattr(patient, name) >= getattr(usual, name) + 200 for name in (*COSTLY, "recover_window"))
    terms, parts = ProCflTerms(counter="ab" * 32, signer="0x" + "ab" * 20), [part(600)] * 50
    assert comparing_seconds(parts[:2]) < comparing_seconds(parts)
    assert judging_seconds(terms, 5.0) == 5 < judging_seconds(replace(terms, seats=3), 5.0)


def test_the_same_time_is_more_blocks_where_blocks_are_short():
    assert windows(8, 0.25, 4.0).commit_window > 2 * windows(8, 1.0, 4.0).commit_window


def part(count):
    generator = np.random.default_rng(count)
    return Samples(generator.random((count, 1, 8, 8), dtype=np.float32), generator.integers(0, 10, count))


def test_the_estimate_of_training_follows_the_number_of_samples():
    config = FederationConfig(
        TrainingTerms(),
        TaskSettings.of_network(ModelSpec("small-cnn", (1, 8, 8), 10)),
        FederationSettings(rounds=1),
        TrainingSettings(epochs=1, batch_size=16),
        StrategySettings("fedavg"),
    )
    little, much = (training_seconds(config, [part(64)] * parts, part(10)) for parts in (4, 4000))
    assert 0 < little < much
