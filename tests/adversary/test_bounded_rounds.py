"""Rounds whose updates have bounds, on an embedded chain with real roles."""

from dataclasses import replace

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Affirmed, Closed, Failed, Vouched
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.bounds_settings import BoundsSettings
from fedgrove.node.protocol.terms import MaskingSettings
from tests.node.federation import Federation

MEMBERS = 6
QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
LEDGER = LedgerSettings(
    seed_delay=1,
    draw_window=20,
    share_window=20,
    commit_window=20,
    vouch_window=20,
    affirm_window=20,
    recover_window=32,
    coordinator_grace=4,
    stages=3,
)


def founded(network, directory, clients=MEMBERS, rounds=1, norm=0.5, **changes) -> Federation:
    """A federation with bounds on updates."""
    agreed = {"masking": MaskingSettings(masked="delta"), "bounds": BoundsSettings(norm), "training": QUICK}
    made = Federation.found(network, directory, clients, rounds, ledger=LEDGER, **{**agreed, **changes})
    made.register()
    return made


@pytest.fixture
def network():
    with embedded() as made:
        yield made


def test_an_honest_round_closes_and_is_verified(network, tmp_path):
    federation = founded(network, tmp_path)
    federation.run()
    assert len(federation.of(Closed)) == 1 and not federation.of(Failed), federation.log
    assert len(federation.of(Vouched)) == len(federation.of(Affirmed)) == MEMBERS
    verdict = federation.audit()
    assert verdict.verdict == "verified" and not verdict.remarks, verdict
