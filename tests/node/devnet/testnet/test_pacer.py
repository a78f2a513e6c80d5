"""Blocks are skipped only while nobody has anything to do."""

import pytest
from fedgrove.chain.networks import anvil
from fedgrove.node.devnet.testnet.pacer import Pacer
from fedgrove.node.learning.settings import TrainingSettings

from tests.node.federation import Federation


@pytest.fixture
def federation(tmp_path):
    with anvil() as network:
        made = Federation.found(network, tmp_path, training=TrainingSettings(epochs=1, batch_size=20))
        made.register()
        yield made


def test_phases_end_when_all_have_acted_and_not_before(federation):
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

    for what, end in (("drew", ends.order_block + 1), ("shared", ends.share_end), ("committed", ends.commit_end)):
        for number in (1, 2, 3):
            act(number, what)
            assert pacer.step() == 0, f"client 4 has not {what}"
        act(4, what)
        assert pacer.step() > 0
        assert federation.network.block_number() == end
        coordinator.step()
    assert pacer.step() == 0, "how long recovery takes is for those who act to say"
