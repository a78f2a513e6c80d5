"""Blocks are skipped only while nobody has anything to do."""

import pytest

from fedgrove.chain.face.networks import anvil
from fedgrove.node.devnet.testnet.pacer import Pacer
from fedgrove.node.learning.settings import TrainingSettings
from tests.node.federation import Federation


@pytest.fixture
def federation(tmp_path):
    with anvil() as network:
        made = Federation.found(network, tmp_path, training=TrainingSettings(epochs=1, batch_size=20))
        made.register()
        yield made


def test_the_blocks_that_seed_and_order_a_round_are_skipped(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    pacer = Pacer(federation.network, federation.ledger(federation.coordinator_keys))
    assert pacer.step() == 0, "no round is open"
    coordinator.step()
    pacer.step()
    ends = coordinator.view.deadlines(coordinator.view.refresh())
    assert federation.network.block_number() >= ends.seed_block

    def act(number, what):
        for _ in range(10):
            if clients[number].step().acted == what:
                return
        raise AssertionError(f"client {number} has not {what}")

    for number in (1, 2, 3):
        act(number, "drew")
        assert pacer.step() == 0, "client 4 has not drawn"
    act(4, "drew")
    assert pacer.step() == 1
    ends = coordinator.view.deadlines(coordinator.view.refresh())
    assert federation.network.block_number() == ends.order_block
    assert coordinator.step().acted.startswith("sealed")
    assert pacer.step() == 0, "how long the rest takes is for those who act to say"
