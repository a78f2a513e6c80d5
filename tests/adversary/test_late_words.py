"""Members that publish, or list, what they say of bounds so late that honest ones cannot answer, or cannot have it."""

from dataclasses import replace

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Affirmed, Closed, Failed, Revealed
from fedgrove.chain.records.base import Phase, Position
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.proving import Vouch
from fedgrove.node.roles.client.role import Duty
from tests.adversary.test_bounded_rounds import LEDGER, LIAR, MEMBERS, Edge, founded, summed
from tests.node.federation import with_phase


@pytest.fixture
def network():
    with embedded() as made:
        yield made


def places(inputs) -> list[int]:
    return [inputs.graph.client(position) for position in inputs.survivors]


# --- a deposition that nobody can have, listed just before the votes -------------------------------------------------


def test_a_deposition_that_slips_in_before_the_votes_stops_nobody(network, tmp_path):
    """Votes are made before they are listed: they are no word on what is listed in between."""
    federation = founded(network, tmp_path)
    clients = federation.clients()
    coordinator = federation.coordinator()
    while len(federation.of(Affirmed)) < MEMBERS:
        assert federation.turn(coordinator, clients), federation.log
    clients[1].view.refresh()
    current = clients[1].view.rounds.last
    first = min(each.at.block for each in current.affirmations.values())
    at = Position(first - 1, bytes(32), 0, clients[LIAR].account)
    slipped = Revealed(at, current.number, LIAR, current.sketch_hash, bytes(32))
    inputs = clients[1].context.inputs(replace(current, reveals={LIAR: [slipped]}))
    assert places(inputs) == [inputs.graph.client(position) for position in range(MEMBERS)]


# --- a voucher that contradicts a partner, published when the others vote --------------------------------------------


class LateVoucher(Vouch):
    """Lists a voucher, and publishes it in the last quarter of the time for votes; it slips in a word before."""

    def _publish(self, turn):
        window = self.context.view.settings.affirm_window
        if turn.phase is not Phase.AFFIRM or turn.block < turn.deadlines.vouch_end + self.share(window):
            return None
        return super()._publish(turn)

    def share(self, window: int) -> int:
        return 3 * window // 4


class Junk(Vouch):
    """Publishes its voucher in time, and lists a deposition at once, so that its edges seem to be spoken of."""

    def act(self, turn):
        if turn.phase is Phase.AFFIRM and turn.client not in turn.current.reveals:
            blob = self.context.store.put(b"nothing").digest
            self.context.ledger.reveal(turn.current.number, turn.current.sketch_hash, blob)
            self.context.view.refresh()
        return super().act(turn)


def contradicting(unit: type[Vouch]) -> type[Client]:
    """Who lies about the mask that it shares with one honest partner, and behaves as ``unit`` in the rest."""
    return with_phase(Edge, Duty.VOUCH, unit)


@pytest.mark.parametrize("unit", (LateVoucher, Junk), ids=lambda each: each.__name__)
def test_whoever_contradicts_a_partner_takes_nobody_with_it(unit, network, tmp_path):
    federation = founded(network, tmp_path, ledger=replace(LEDGER, affirm_window=40))
    clients = federation.clients()
    clients[LIAR] = federation.client(LIAR, contradicting(unit))
    # The victim, whose number is not known before the order is, acts after the others: the liar first.
    coordinator, order = federation.coordinator(), None
    for _ in range(1000):
        if not federation.turn(coordinator, order or clients):
            break
        current = clients[1].view.rounds.last if order is None else None
        if current is not None and current.sealed is not None:
            graph = clients[1].context.inputs(current).graph
            victim = graph.client(min(set(range(graph.n)) - {current.order.index(LIAR)}))
            order = dict(sorted(clients.items(), key=lambda each: (each[0] == victim, each[0] != LIAR)))
    assert not federation.of(Failed) and len(federation.of(Closed)) == 1, federation.log
    record, inputs = summed(federation)
    assert {inputs.graph.client(each) for each in record.self_seeds} == {*range(1, MEMBERS + 1)} - {LIAR}
    assert federation.audit().verdict == "verified"
