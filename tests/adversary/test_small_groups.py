"""Colluders that spoil a round, so that the next is summed in groups, and are most of what is left of one.

A group is large enough that colluders alone cannot be all partners of an honest member. But members drop out, and what
is left of a group may be colluders and one other: their sum, less what they sent, is its update. They can spoil rounds
again until they stand in one group, and wait for somebody to drop out of it. What stops them: of a group as many must
survive as hide each other from all colluders, else nothing of it is revealed.
"""

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Failed
from fedgrove.node.base.tensors import flatten
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.graph import MIN_CLIENTS
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.opening import open_update
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, crowd, partners_needed
from fedgrove.node.masking.recovery import most_record_bytes
from fedgrove.node.masking.ring import WORD, encode
from fedgrove.node.methods.training.masked import MaskedUploads
from fedgrove.node.methods.training.method import _MECHANISMS
from fedgrove.node.methods.training.regrouping import half, parts
from fedgrove.node.protocol.accounting import NoMechanism
from fedgrove.node.protocol.aggregation import recovery
from fedgrove.node.roles.client import Client
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=30, learning_rate=0.05)
# Colluders stand in one group in 3 of 7 rounds that are summed in groups, every second one: in none of 60 with 10⁻⁷.
MEMBERS, COLLUDERS, MOST_ROUNDS = 7, (1, 2), 60
CORNERS = 3  # rounds in which an honest member is left alone with them, before they give up


class Colluder(Client):
    """Sends what cannot be summed wherever the colluders do not stand well."""

    wait = True

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        disclosure = self.context.disclosure
        honest = disclosure.mask
        disclosure.mask = lambda *inputs: self._poisoned(honest(*inputs)) if self.wait else honest(*inputs)

    def _poisoned(self, data: bytes) -> bytes:
        words = np.frombuffer(data, WORD).copy()
        words[:1] += np.uint32(1.9 * 2**30)
        return words.tobytes()


def read_an_update(directory) -> bool:
    """Whether two of seven read somebody's update, bit for bit, from the records of some round."""
    with embedded() as network:
        federation = Federation.found(network, directory, MEMBERS, rounds=MOST_ROUNDS, training=QUICK)
        federation.register()
        coordinator, clients = federation.coordinator(), federation.clients()
        for number in COLLUDERS:
            clients[number] = federation.client(number, Colluder)
        secrets: dict[tuple[int, int], RoundSecrets] = {}
        leaves: set[int] = set()
        corners = 0
        while federation.turn(coordinator, {number: each for number, each in clients.items() if number not in leaves}):
            current = coordinator.view.refresh()  # before anybody commits
            if current is None:
                continue
            if current.number > MOST_ROUNDS:
                break
            for number in COLLUDERS:
                if clients[number].context.journal.note(current.number) is not None:
                    secrets[current.number, number] = clients[number].context.disclosure.secrets(current.number)
            if current.end is not None:
                if isinstance(current.end, Closed) and opened(coordinator.context.inputs(current), secrets, clients):
                    return True
                if leaves and corners == CORNERS:
                    break
                leaves = set()
            elif current.sealed is not None and not current.commits:
                honest = cornered(coordinator.context.inputs(current))
                for number in COLLUDERS:
                    clients[number].wait = not honest
                leaves = set(honest[1:]) if len(current.shares) == MEMBERS else set()
                corners += bool(leaves)
        records = federation.history().records()
        assert sum(isinstance(each, Failed) for each in records) > 1, "no round was spoilt"
        assert corners, "colluders never stood in one group"
        assert federation.audit().exit_code == 0
        return False


def cornered(inputs) -> list[int]:
    """The honest members of the group in which all colluders stand; nobody where there is none such.

    All of them but one are then to drop out.
    """
    order = inputs.current.order
    groups = [[order[position] for position in group] for group in inputs.graph.groups]
    around = next((group for group in groups if set(COLLUDERS) <= set(group)), [])
    return [each for each in around if each not in COLLUDERS]


def opened(inputs, secrets, clients) -> bool:
    """Whether the round's records and the colluders' secrets open an honest member's upload."""
    current, graph = inputs.current, inputs.graph
    record = recovery(inputs, inputs.store.fetch(current.recovered.digest, most_record_bytes(graph)))
    told = {current.order.index(number): secrets[current.number, number].mask_secret for number in COLLUDERS}
    for position, seed in record.self_seeds.items():
        number = current.order[position]
        if number in COLLUDERS:
            continue
        assert seed
        data = inputs.store.fetch(current.commits[number].digest, 1 << 24)
        found = open_update(graph, position, told, inputs.sharers, record, np.frombuffer(data, WORD))
        if found is not None:
            bare = flatten(clients[number].context.work.result(current, number).tensors)
            samples = current.draws[number].samples
            assert (found == encode(bare, inputs.layout, samples, graph.total_samples, 8.0)).all()
            return True
    return False


@pytest.fixture
def three_and_half_are_enough(monkeypatch):
    """Takes the mend out: a group counts with three survivors, if they are more than half of it; none is larger."""
    monkeypatch.setitem(_MECHANISMS, "none", (WithSmallGroups, NoMechanism))


class WithSmallGroups(MaskedUploads):
    def parts(self, n):
        return (tuple(range(self.least_hidden(n))),)

    def least(self, n):
        return MIN_CLIENTS

    def least_hidden(self, n):
        return super().least(n)


def test_of_a_group_so_many_must_survive_that_colluders_are_never_alone_with_one(tmp_path):
    assert not read_an_update(tmp_path)


def test_with_three_survivors_and_more_than_half_they_read_an_update(tmp_path, three_and_half_are_enough):
    assert read_an_update(tmp_path)


@pytest.mark.parametrize("n", range(3, 200))
def test_whoever_drops_out_of_a_group_no_honest_member_is_left_alone(n):
    """Up to as many colluders as the terms assume, wherever they stand; beyond 99 clients with a chance of 1 − 2⁻⁸⁰."""
    least, colluders = crowd(n, DEFAULT_ASSUMED), DEFAULT_ASSUMED.colluders_of(n)
    for groups in (parts(n, least, DEFAULT_ASSUMED), half(n, least, DEFAULT_ASSUMED)):
        assert all(len(group) >= least for group in groups)
        assert sum(map(len, groups)) <= n and (n <= MIN_CLIENTS or len(groups) > 1 or len(groups[0]) < n)
    exact = partners_needed(n, colluders) == min(colluders, n - 1) + 1
    assert least - colluders >= 2 or not exact
    assert exact or n > 99
