"""Attack: a coordinator closes a round in cells over its friends' cell alone, and leaves out one that nobody spoilt.

A recovery record names the cells that are not summed, and every secret in it is checked. Nothing said why one is left
out, so whoever closed chose whose updates count. What stops it: a cell is left out only where most witnesses of an
update report that it is gone, or the shares that were released recover no secret; members judge anything else.
That a cell is left out which somebody spoilt is tested in ``test_spoilers``.
"""

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Phase, Replaced
from fedgrove.node.protocol.aggregation import recovered
from fedgrove.node.protocol.terms import FederationSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.contributing import Publish
from fedgrove.node.roles.client.role import Duty
from fedgrove.node.roles.coordinator.summing import Close
from tests.node.federation import Federation, with_phase

MEMBERS, FRIEND, ROUNDS = 8, 3, 2


class LateOnce(Publish):
    """Takes its first update away, so that the next rounds are summed in cells."""

    def act(self, turn):
        return None if turn.current.number == 1 else super().act(turn)


class Unjust(Close):
    """Closes over the friend's cell."""

    def _recovered(self, turn, inputs, released):
        if inputs.graph.is_whole:
            return super()._recovered(turn, inputs, released)
        cells = [set(map(inputs.graph.client, cell.positions)) for cell in inputs.graph.groups]
        return recovered(inputs, released, [number for number, cell in enumerate(cells) if FRIEND not in cell])


def played(directory, checkers: float) -> Federation:
    with embedded() as network:
        terms = FederationSettings(rounds=ROUNDS, checkers=checkers)
        made = Federation.found(network, directory, clients=MEMBERS, repeats=9, federation=terms)
        made.register()
        coordinator, clients = made.coordinator(), made.clients()
        coordinator.units[Phase.RECOVER] = Unjust(coordinator.context)
        clients[FRIEND] = made.client(FRIEND, with_phase(Client, Duty.PUBLISH, LateOnce))
        standbys = [made.standby(number) for number in clients]
        for _ in range(2_000):
            if not made.turn(coordinator, clients, standbys):
                break
        made.verdict = made.audit()
    return made


def test_members_put_the_sum_of_all_cells_in_its_place(tmp_path):
    made = played(tmp_path, checkers=5.0)
    assert len(made.of(Replaced)) == 1 and len({each.round for each in made.of(Closed)}) == ROUNDS
    assert made.verdict.verdict == "verified", made.verdict


def test_where_members_do_not_look_the_audit_names_it(tmp_path):
    made = played(tmp_path, checkers=0.0)
    assert made.verdict.first_bad_record.field == "recovery.left out", made.verdict
    assert "whose secrets can be recovered" in made.verdict.reason
