"""Members that rush, stall or repeat themselves where a phase ends with its last actor, and a coordinator that bars.

The last client to draw chooses the block in which the draws end, and with it the block whose randomness orders all
clients: it would like to choose the order. A client that rushes would like to end a phase before others have acted; a
coordinator would like to end the draws without a member. What stops them: the order's block comes after the last draw,
so that whoever draws chooses blindly; an action counts once for each client; who is barred is checked by the contract.
"""

from dataclasses import replace

import numpy as np
import pytest

from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import DrawEnded, Phase, Record, RoundOpened
from fedgrove.chain.records.phases import Deadlines, Ends
from fedgrove.chain.records.signed_draws import sign_draw
from fedgrove.node.masking import parameters
from fedgrove.node.masking.collusion import exposed
from fedgrove.node.protocol.bad_record import RuleBroken
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.rounds import Rounds
from tests.adversary.test_withheld_draws import COLLUDERS, INSTANCES, TRIES, N, view
from tests.chain.federations import SETTINGS, Federation, found

DIGEST = b"d" * 32
WINDOWS = replace(SETTINGS, draw_window=TRIES)


# --- the last to draw, which stalls -----------------------------------------------------------------------------------


def stall(instance: int) -> bool:
    """Whether the last to draw exposes somebody, by drawing in the block that gives the order which it likes."""
    generator = np.random.default_rng(instance)
    tickets = [int(ticket) for ticket in generator.choice(2**60, N, replace=False)]
    colluders = set(tickets[:COLLUDERS])
    hashes = [generator.bytes(32) for _ in range(TRIES + 10)]
    seed_block = Deadlines.of(0, WINDOWS, Ends()).seed_block
    order_block = 0
    for block in range(seed_block + 1, seed_block + TRIES + 1):
        order_block = Deadlines.of(0, WINDOWS, Ends(draw=block)).order_block
        head = block - 1  # the latest that exists when a transaction for `block` is sent
        if order_block <= head and exposed(*view(tickets, colluders, hashes[order_block])):
            return True
    return bool(exposed(*view(tickets, colluders, hashes[order_block])))


@pytest.fixture
def only_partners_of_the_tree(monkeypatch):
    """So that few orders are enough, see ``test_withheld_draws``."""
    monkeypatch.setattr(parameters, "partners_of_all", lambda n, assumed: 0)


def test_the_last_to_draw_chooses_blindly(only_partners_of_the_tree):
    assert not any(stall(instance) for instance in range(INSTANCES))


@pytest.mark.mutants
def test_the_last_to_draw_would_choose_the_order_by_a_block_that_it_knows(only_partners_of_the_tree, monkeypatch):
    """The mutant: the block before the last draw orders the clients."""
    honestly = Deadlines.of

    def known(opened_at, settings, ends):
        found = honestly(opened_at, settings, ends)
        return replace(found, order_block=found.draw_end - 1)

    monkeypatch.setattr(Deadlines, "of", known)
    assert any(stall(instance) for instance in range(INSTANCES))


def test_on_a_chain_the_order_is_open_until_after_the_last_draw_whenever_that_is():
    with embedded() as network:
        federation = found(network)
        number = federation.open()
        federation.to_draw(number)
        for index in range(3):
            federation.draw(number, index)
        network.mine(3)
        federation.draw(number, 3)
        told = federation.coordinator.round(number)
        assert told.draw_end == network.block_number() < told.order_block == told.draw_end + SETTINGS.order_delay
        federation.coordinator.records()
        with pytest.raises(ContractRevert) as refused:
            federation.coordinator.seal(number, federation.tickets(number), told.draw_end)
        assert refused.value.name == "OrderBlockNotPast"


# --- clients that rush and repeat themselves --------------------------------------------------------------------------


@pytest.fixture
def federation():
    with embedded() as network:
        yield found(network)


def insist(act) -> None:
    """Do it twice; the second time is refused."""
    act()
    with pytest.raises(ContractRevert):
        act()


def test_a_client_that_acts_again_and_again_ends_no_phase(federation):
    ledger, network = federation.coordinator, federation.network
    number = federation.open()
    federation.to_draw(number)
    federation.draw(number, 1)
    federation.draw(number, 2)
    insist(lambda: federation.draw(number, 0))
    keys = federation.keys[0]
    item = sign_draw(federation.deployment, number, keys, federation.alpha(number), DIGEST, DIGEST, 5)
    federation.clients[0].draw_batch(number, [item] * 3)
    assert ledger.round(number).drawn == 3 and ledger.round(number).phase == Phase.DRAW
    network.advance_to(ledger.round(number).draw_end - 1)
    federation.draw(number, 3)  # late, in the last block of the window
    federation.seal(number)
    for index in (1, 2):
        federation.clients[index].share(number, DIGEST)
    insist(lambda: federation.clients[0].share(number, DIGEST))
    assert ledger.round(number).phase == Phase.SHARE
    network.advance_to(ledger.round(number).share_end - 1)
    federation.clients[3].share(number, DIGEST)
    for index in (1, 2):
        federation.clients[index].commit(number, DIGEST, DIGEST)
    insist(lambda: federation.clients[0].commit(number, DIGEST, DIGEST))
    assert ledger.round(number).phase == Phase.COMMIT
    network.advance_to(ledger.round(number).commit_end - 1)
    federation.clients[3].commit(number, DIGEST, DIGEST)
    told = ledger.round(number)
    assert told.committed == told.drawn == 4 and told.commit_end == network.block_number()


def test_a_client_that_waits_for_all_others_has_its_whole_window_and_no_more(federation):
    ledger, network = federation.coordinator, federation.network
    number = federation.sealed()
    sealed_at = network.block_number()
    for index in range(3):
        federation.clients[index].share(number, DIGEST)
    end = ledger.round(number).share_end
    assert end == sealed_at + SETTINGS.share_window
    network.advance_to(end)
    with pytest.raises(ContractRevert):
        federation.clients[3].share(number, DIGEST)
    for index in range(3):
        federation.clients[index].commit(number, DIGEST, DIGEST)
    assert ledger.round(number).commit_end == network.block_number(), "who did not share is not waited for again"


# --- a coordinator that bars, and an endpoint that invents ------------------------------------------------------------


def test_a_coordinator_cannot_bar_a_member_that_may_draw(federation):
    with pytest.raises(ContractRevert) as refused:
        federation.coordinator.open(federation.coordinator.current_model(), [federation.keys[3].address])
    assert refused.value.name == "NotBarred"


def drawn_by_three(federation: Federation) -> tuple[list[Record], ChainFacts]:
    """A round that the fourth member has yet to draw in, and the facts of its chain."""
    number = federation.open()
    federation.to_draw(number)
    for index in range(3):
        federation.draw(number, index)
    ledger = federation.coordinator
    return ledger.records(), ChainFacts(federation.deployment, 0, ledger.block_hash, ledger.block_randomness)


def check(records: list[Record], facts: ChainFacts) -> None:
    rounds = Rounds()
    rules = Law(facts, rounds)
    for record in records:
        rules.check(record)
        rounds.add(record)


def test_an_endpoint_cannot_say_that_the_draws_are_over(federation):
    records, facts = drawn_by_three(federation)
    check(records, facts)
    invented = [*records, DrawEnded(records[-1].at, records[-1].round)]
    with pytest.raises(RuleBroken, match="phase end"):
        check(invented, facts)


def test_an_endpoint_cannot_say_that_a_member_was_barred(federation):
    records, facts = drawn_by_three(federation)
    place = next(index for index, record in enumerate(records) if isinstance(record, RoundOpened))
    records[place] = replace(records[place], barred=(federation.keys[3].address,))
    invented = [*records, DrawEnded(records[-1].at, records[-1].round)]
    with pytest.raises(RuleBroken, match="lists accounts that may draw"):
        check(invented, facts)
