"""A coordinator that leaves an accomplice out of a sum after it has seen it, where there are no bounds."""

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Phase, Replaced
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.survivors import needed_secrets
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.role import Duty
from tests.node.federation import Federation, with_phase

MEMBERS, ACCOMPLICE, AWAY = 8, 3, (7, 8)


class Silent:
    """Draws, and is never seen again in the round."""

    def __init__(self, context):
        self.context = context

    def act(self, turn):
        return turn.sit_out("it is away")


@pytest.fixture
def network():
    with embedded() as made:
        yield made


def test_without_bounds_nobody_is_left_out_of_a_sum(network, tmp_path):
    federation = Federation.found(network, tmp_path, clients=MEMBERS)
    federation.register()
    clients = federation.clients()
    clients |= {number: federation.client(number, with_phase(Client, Duty.SHARE, Silent)) for number in AWAY}
    coordinator = federation.coordinator()
    unit = coordinator.units[Phase.RECOVER]
    honest = unit._recovered

    def without_accomplice(turn, inputs, released) -> RecoveryRecord:
        record, position = honest(turn, inputs, released), inputs.current.order.index(ACCOMPLICE)
        needed = needed_secrets(inputs.graph, inputs.sharers, set(inputs.survivors) - {position})
        secret = clients[ACCOMPLICE].context.disclosure.secrets(inputs.current.number).mask_secret
        secrets = {**record.mask_secrets, position: secret}
        return RecoveryRecord(
            needed.transcript,
            {each: record.self_seeds[each] for each in needed.seeds},
            {each: secrets[each] for each in needed.keys},
            (),
            {position: record.self_seeds[position]},
        )

    unit._recovered = without_accomplice
    federation.run(coordinator, clients)
    (closed,) = federation.of(Closed)
    assert federation.of(Replaced), federation.log
    (remark,) = federation.audit().remarks
    assert (remark.field, remark.round) == ("recovery.content", closed.round), remark
