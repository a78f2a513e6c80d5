"""Colluders that withhold draws, and a maker of blocks that tries orders.

They want an honest client whose partners all collude: once its self-mask is off, its update is bare. What stops them:
the order, and with it every edge of the mask graph, comes from a block after the last draw; and every client has so
many partners that trying 2⁴⁰ orders exposes somebody with a chance of 2⁻⁴⁰ at most.
"""

import functools

import numpy as np
import pytest

from fedgrove.chain.crypto import tree
from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.face.networks import embedded
from fedgrove.node.masking import parameters
from fedgrove.node.masking.collusion import exposed, exposure_bound
from fedgrove.node.masking.context import Participant, RoundContext
from fedgrove.node.masking.graph import build_graph
from fedgrove.node.masking.parameters import Assumed
from fedgrove.node.masking.x_only import point
from fedgrove.node.protocol.bad_record import RuleBroken
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.rounds import Rounds
from fedgrove_lab.attacks.withholding import find_trap
from tests.chain.federations import found

N, COLLUDERS, INSTANCES, TRIES = 100, 33, 6, 200
CONTEXT = RoundContext(1, "0x" + 40 * "a", 1)
KEY = point((1).to_bytes(32))[1:]


@functools.cache
def tree_partners(position: int, n: int) -> tuple[int, ...]:
    return tree.partners(position, n)


def play(instance: int, tries: int) -> bool:
    """Whether colluders who see all honest tickets before they draw, and try so many orders, expose somebody."""
    generator = np.random.default_rng(instance)
    tickets = [int(ticket) for ticket in generator.choice(2**60, N, replace=False)]
    honest, colluders = tickets[COLLUDERS:], tickets[:COLLUDERS]
    trap = find_trap(honest, colluders, tree_partners)
    drawn = honest + list(trap.drawing if trap else colluders)
    return any(exposed(*view(drawn, set(colluders), generator.bytes(32))) for _ in range(tries))


def view(tickets: list[int], colluders: set[int], order_seed: bytes) -> tuple[tuple, frozenset[int]]:
    """The mask graph of a round, and where in it the colluders stand."""
    ordered = tree.order(tickets, order_seed)
    n = len(ordered)
    participants = [Participant(p, p + 1, 1, KEY, KEY) for p in range(n)]
    partners = [tree_partners(position, n) for position in range(n)]
    degree = parameters.partners_of_all(n, Assumed())
    built = build_graph(CONTEXT, participants, partners, degree=degree, seed=order_seed)
    return built.neighbours, frozenset(p for p, ticket in enumerate(ordered) if ticket in colluders)


@pytest.fixture
def tickets_are_the_order(monkeypatch):
    """Takes out one half of the mend: where a ticket stands is known before the last draw."""
    monkeypatch.setattr(tree, "key", lambda ticket, order_seed: ticket.to_bytes(16, "big"))


@pytest.fixture
def only_partners_of_the_tree(monkeypatch):
    """Takes out the other half: about log₂ n partners."""
    monkeypatch.setattr(parameters, "partners_of_all", lambda n, assumed: 0)


def test_withheld_draws_expose_somebody_where_the_tickets_are_the_order(
    tickets_are_the_order, only_partners_of_the_tree
):
    assert sum(play(instance, tries=1) for instance in range(INSTANCES)) >= INSTANCES - 1


def test_few_partners_expose_somebody_to_a_maker_of_blocks_that_tries_orders(only_partners_of_the_tree):
    assert not any(play(instance, tries=1) for instance in range(INSTANCES))
    assert any(play(instance, TRIES) for instance in range(INSTANCES))


def test_many_partners_alone_hide_everybody_from_withheld_draws(tickets_are_the_order):
    assert not any(play(instance, tries=1) for instance in range(INSTANCES))


def test_neither_exposes_anybody():
    assert not any(play(instance, tries=20) for instance in range(INSTANCES))


@pytest.mark.parametrize(("n", "colluders"), [(64, 21), (100, 33), (256, 84), (1000, 330), (10_000, 3_300)])
def test_two_to_the_forty_orders_are_not_enough(n, colluders):
    assert exposure_bound(n, colluders, parameters.partners_of_all(n, Assumed()), 2**40) <= 2**-40


def test_nobody_knows_the_order_before_the_draws_are_over():
    """On a real chain: the block that orders the tickets lies after the last one that takes a draw."""
    with embedded() as network:
        federation = found(network)
        number = federation.open()
        federation.to_draw(number)
        for index in range(4):
            federation.draw(number, index)
        view_ = federation.coordinator.round(number)
        assert view_.order_block > view_.draw_end
        network.advance_to(view_.draw_end)
        federation.coordinator.records()
        with pytest.raises(ContractRevert) as refused:
            # The block after the draws is this transaction's own: its hash does not exist yet.
            federation.coordinator.seal(number, federation.tickets(number), view_.draw_end)
        assert refused.value.name == "OrderBlockNotPast"


def test_an_order_from_other_randomness_breaks_the_rules():
    with embedded() as network:
        federation = found(network)
        federation.sealed()
        records = federation.coordinator.records()
        rounds = Rounds()
        facts = ChainFacts(federation.deployment, 0, lambda number: bytes(32), federation.coordinator.block_randomness)
        rules = Law(facts, rounds)
        with pytest.raises(RuleBroken, match="seed"):
            for record in records:
                rules.check(record)
                rounds.add(record)
