"""A coordinator that closes with the hash of a block that never was, so that every audit refuses the history.

Each closing names a block of the chain, by which the history before it is signed. The coordinator wants a training that
goes on and that nobody can have verified afterwards, or copies of it that end differently. What stops it: members that
recompute a closing look at the block that it names, too, and judge it wrong; their result takes its place, and what
stands is verified. A block that the chain abandoned after the closing ends in the same way.
"""

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Judged, Phase, Replaced
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol import closing as closings
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.roles.coordinator.summing import Close
from tests.adversary.standing_in import with_standbys
from tests.node.federation import Federation, with_phase

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)


class NamesAnotherBlock(Close):
    """Its first closing names a block with a hash of its own."""

    def act(self, turn):
        if turn.current.number != 1:
            return super().act(turn)
        self.context.ledger.block_hash = lambda number: bytes(32)
        try:
            return super().act(turn)
        finally:
            del self.context.ledger.block_hash


@pytest.fixture
def federation(tmp_path):
    with embedded() as network:
        made = Federation.found(network, tmp_path, clients=3, rounds=2, training=QUICK)
        made.register()
        yield made


def run(federation):
    """The rounds whose closing was replaced, how many members said the same of it, and the verdict."""
    coordinator = federation.coordinator(with_phase(Coordinator, Phase.RECOVER, NamesAnotherBlock))
    clients = federation.clients()
    while not federation.of(Closed):
        federation.turn(coordinator, clients)
    federation.run(coordinator, with_standbys(federation, clients))
    records = federation.history().records()
    replaced = {record.round: record.metrics_digest for record in records if isinstance(record, Replaced)}
    judged = [record for record in records if isinstance(record, Judged)]
    assert sum(isinstance(record, Closed) for record in records) == 2
    alike = sum(each.metrics_digest == replaced.get(each.round) for each in judged)
    return list(replaced), alike, federation.audit()


def test_the_closing_is_replaced_and_what_stands_is_verified(federation):
    replaced, judges, verdict = run(federation)
    assert replaced == [1] and judges >= 2
    assert verdict.verdict == "verified", verdict.reason
    (remark,) = [each for each in verdict.remarks if each.field == "closed.metrics"]
    assert remark.round == 1 and "they name a hash that block" in remark.reason


def test_members_that_do_not_look_at_the_block_lose_their_history(federation, monkeypatch):
    honest = closings.Closings._difference

    def without_looking(member, *closing):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fedgrove.node.protocol.policy.head_fault", lambda *_: "")
            return honest(member, *closing)

    monkeypatch.setattr(closings.Closings, "_difference", without_looking)
    replaced, judges, verdict = run(federation)
    assert (replaced, judges) == ([], 0)
    first = verdict.first_bad_record
    assert verdict.verdict == "bad record" and (first.round, first.field) == (1, "closed.metrics")
