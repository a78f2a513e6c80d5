"""The seed is fixed once, draws are waited for, and the order is sealed when its block is confirmed."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.records import SeedFixed
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.roles.coordinator.opening import SealOrder
from tests.node.roles.fakes import DEADLINES, Events, context_with, turn_at, view_at

SEED = object()


class TwoTickets(RoundRecords):
    """A round whose draws have these tickets."""

    tickets = (5, 6)


def act(block, draws=(), seed=SEED, left=()):
    events = Events()
    rounds = SimpleNamespace(members=dict.fromkeys((1, 2, 3, 4)), left=lambda client: client in left)
    current = TwoTickets(SimpleNamespace(round=1), once={SeedFixed: seed} if seed else {})
    current.draws.update(dict.fromkeys(draws))
    return SealOrder(context_with(events, view_at(block, rounds=rounds))).act(turn_at(block, current)), events


def test_it_waits_for_the_seed_block():
    step, events = act(DEADLINES.seed_block - 1, seed=None)
    assert (step.phase, step.until) == ("seeding", DEADLINES.seed_block) and not events


@pytest.mark.parametrize("block", [DEADLINES.seed_block, DEADLINES.draw_end - 1])
def test_the_seed_is_fixed_once(block):
    step, events = act(block, seed=None)
    assert step.acted == "fixed the seed" and events == [("fix_seed", 1)]
    assert not act(block)[1]


def test_it_waits_for_members_that_have_not_left():
    step, _ = act(15, draws=(1,), left=(3,))
    assert (step.phase, step.waiting, step.until) == ("draw", "clients 2, 4 to draw", DEADLINES.draw_end)


def test_a_round_below_the_quorum_is_skipped():
    step, events = act(DEADLINES.draw_end, draws=(1, 2))
    assert step.acted == "skipped the round: 2 drawn" and events == [("skip", 1)]


def test_the_order_is_sealed_only_after_its_block():
    step, events = act(DEADLINES.order_block - 1, draws=(1, 2, 3))
    assert (step.phase, step.until) == ("seal", DEADLINES.order_block) and not events
    step, events = act(DEADLINES.order_block, draws=(1, 2, 3))
    assert step.acted == "sealed the order of 3" and events == [("seal", 1, (5, 6), DEADLINES.order_block)]
