"""Colluders that spoil a round, so that the next is summed in cells, and are most of what is left of one.

A cell is large enough that colluders alone cannot be all partners of an honest member. But members drop out, and what
is left of a cell may be colluders and one other: their sum, less what they sent, is its update. They stand in one cell
by chance, and wait for somebody to drop out of it. What stops them: of a cell as many must survive as hide each other
from all colluders, else nothing of it is revealed.
"""

import os

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Failed
from fedgrove.node.base.tensors import flatten
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.graph import MIN_CLIENTS, Group
from fedgrove.node.masking.opening import open_update
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, crowd, partners_needed
from fedgrove.node.masking.ring import WORD
from fedgrove.node.methods.training.codec import weight_of
from fedgrove.node.protocol.aggregation import named_recovery
from fedgrove.node.roles.client import Client
from tests.node.federation import Federation, sending, with_word
from tests.node.protocol.test_cells import Ledger

QUICK = TrainingSettings(epochs=1, batch_size=30, learning_rate=0.05)
MEMBERS, SPOILER = 8, 1


def spoils_the_first_round(inputs, upload):
    return with_word(upload, 0, round(1.9 * 2**30)) if inputs.current.number == 1 else upload


def read_an_update(directory) -> bool:
    """Whether two of eight read somebody's update, bit for bit, from the records of the round after the spoilt one.

    The spoiler is lucky: its accomplice is one of its cell, and of the two others there one drops out.
    """
    with embedded() as network:
        made = Federation.found(network, directory, MEMBERS, rounds=1, repeats=2, training=QUICK)
        made.register()
        coordinator, clients = made.coordinator(), made.clients()
        clients[SPOILER] = made.client(SPOILER, sending(spoils_the_first_round))
        secrets, accomplice, present = {}, 0, dict(clients)
        while made.turn(coordinator, present):
            current = coordinator.view.refresh()
            if current is None or current.number == 1 or current.sealed is None or current.end is not None:
                continue
            accomplice, _, leaver = others_in_the_cell(coordinator.context.inputs(current))
            for number in (SPOILER, accomplice):
                secrets[number] = clients[number].context.disclosure.secrets(current.number).mask_secret
            if len(current.shares) == MEMBERS and not current.commits:
                present.pop(leaver, None)
        (failed,), (closed,) = made.of(Failed), made.of(Closed)
        assert (failed.round, closed.round) == (1, 2) and accomplice
        assert made.audit().verdict == "verified"
        return is_open(coordinator.context.inputs(coordinator.view.rounds.rounds[2]), secrets, clients)


def others_in_the_cell(inputs) -> list[int]:
    """The members of the cell that the spoiler stands in."""
    order = inputs.current.order
    cells = [[order[position] for position in group.positions] for group in inputs.graph.groups]
    return sorted(next(cell for cell in cells if SPOILER in cell))[1:]


def is_open(inputs, secrets: dict[int, bytes], clients: dict[int, Client]) -> bool:
    """Whether the round's records and the colluders' secrets open an honest member's upload."""
    current, graph, record = inputs.current, inputs.graph, named_recovery(inputs)
    told = {current.order.index(number): secret for number, secret in secrets.items()}
    for position in record.self_seeds:
        number = current.order[position]
        if number in secrets:
            continue
        data = np.frombuffer(inputs.store.fetch(current.commits[number].digest, 1 << 24), WORD)
        found = open_update(graph, position, told, inputs.sharers, record, data)
        if found is not None:
            context = clients[number].context
            update, weight = context.work.result(current, number), weight_of(inputs, [position])
            mechanism = context.method.codec.mechanism(inputs.layout)
            bare = mechanism.encode(flatten(update.tensors), lambda: inputs.previous, weight, os.urandom)
            assert (found[: len(bare)] == bare).all()  # a word that counts who could not train is behind it
            return True
    return False


def test_of_a_cell_so_many_must_survive_that_colluders_are_never_alone_with_one(tmp_path):
    assert not read_an_update(tmp_path)


def test_with_three_survivors_and_more_than_half_they_read_an_update(tmp_path, monkeypatch):
    """Takes the mend out: a cell counts with three survivors, if they are more than half of it."""
    of = Group.of
    monkeypatch.setattr(Group, "of", lambda positions, least, *counted: of(positions, MIN_CLIENTS, *counted))
    assert read_an_update(tmp_path)


@pytest.mark.parametrize("n", range(3, 200))
def test_whoever_drops_out_of_a_cell_no_honest_member_is_left_alone(n):
    """Up to as many colluders as the terms assume, wherever they stand; beyond 99 clients with a chance of 1 − 2⁻⁸⁰."""
    least, colluders = crowd(n, DEFAULT_ASSUMED), DEFAULT_ASSUMED.colluders_of(n)
    ledger = Ledger(n)
    for _ in range(2):
        ledger.hold()
    partition = ledger.cells.partition(2)
    cells = partition.cells if partition is not None else ()
    assert all(len(cell) >= least for cell in cells) and (len(cells) > 1) == (n >= 2 * least)
    exact = partners_needed(n, colluders) == min(colluders, n - 1) + 1
    assert least - colluders >= 2 or not exact
    assert exact or n > 99
