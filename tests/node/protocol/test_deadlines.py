"""The ends of phases: as the contract has them, as Python computes them, and as the ledger's rules check them."""

import random
from contextlib import suppress
from dataclasses import asdict, astuple

import pytest

from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import CommitEnded, Committed, DrawEnded, Drawn, FailureReason, Shared, ShareEnded
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.chain.records.phases import Deadlines, Ends
from fedgrove.node.protocol.bad_record import RuleBroken
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.clock import phase_of
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.rounds import Rounds
from tests.chain.federations import SETTINGS, Federation, found

DIGEST = b"d" * 32
CALLED_IN = 0  # calls see the latest block
WINDOWS = LedgerSettings(1, 10, 1, 20, 30, 40, 50, 60, 5)


def walk(federation: Federation, seed: int) -> None:
    """Take the latest round on at random, also where the contract refuses, and compare after each step."""
    chance, ledger, network = random.Random(seed), federation.coordinator, federation.network
    view = LedgerView(ledger)
    number = federation.open()
    steps = [
        lambda: network.mine(chance.randrange(1, 4)),
        lambda: federation.draw(number, chance.randrange(4)),
        lambda: federation.clients[chance.randrange(4)].share(number, DIGEST),
        lambda: federation.clients[chance.randrange(4)].commit(number, DIGEST, DIGEST),
        lambda: federation.seal(number),
        lambda: ledger.recover(number, DIGEST),
        lambda: ledger.close(number, DIGEST, DIGEST) if chance.random() < 0.3 else None,
    ]
    federation.to_draw(number)
    for _ in range(60):
        with suppress(ChainError):  # it was not due
            chance.choices(steps, weights=(1, 8, 8, 8, 3, 3, 3))[0]()
        current, told = view.refresh(), ledger.round(number)
        blocks = asdict(current.deadlines(SETTINGS))
        assert blocks == {name: getattr(told, name) for name in blocks}
        assert told.phase is phase_of(current, current.deadlines(SETTINGS), network.block_number() + CALLED_IN)
        if current.end is not None:
            return


@pytest.mark.parametrize("seed", range(6))
def test_contract_and_python_agree_whatever_happens(seed):
    with embedded() as network:
        federation = found(network)
        for part in range(3):
            walk(federation, 10 * seed + part)
            number = federation.coordinator.current_round()
            network.advance_to(federation.coordinator.round(number).close_end)
            with suppress(ChainError):  # it has ended, or is skipped
                federation.coordinator.skip(number)
            with suppress(ChainError):
                federation.coordinator.fail(number, FailureReason.DEADLINE, DIGEST)


def test_each_phase_begins_where_the_one_before_ended():
    assert astuple(Deadlines.of(100, WINDOWS, Ends())) == (100, 101, 111, 112, 132, 162, 202, 252, 312)
    assert astuple(Deadlines.of(100, WINDOWS, Ends(draw=103)))[2:5] == (103, 104, 124)
    assert astuple(Deadlines.of(100, WINDOWS, Ends(103, 105, 105, 120, 122)))[4:] == (105, 105, 120, 122, 182)


@pytest.fixture(scope="module")
def history():
    """The records of a round in which nobody was missing, and what is known of its chain."""
    with embedded() as network:
        federation = found(network)
        number = federation.sealed()
        for client in federation.clients:
            client.share(number, DIGEST)
        for client in federation.clients:
            client.commit(number, DIGEST, DIGEST)
        ledger = federation.coordinator
        hashes = {block: network.block_hash(block) for block in range(network.block_number() + 1)}
        facts = ChainFacts(ledger.deployment, network.block_number(), hashes.__getitem__, hashes.__getitem__)
        yield ledger.records(), facts


def check(records, facts) -> str:
    """The fault that the rules find, or an empty string."""
    rounds = Rounds()
    rules = Law(facts, rounds)
    try:
        for record in records:
            rules.check(record)
            rounds.add(record)
    except RuleBroken as broken:
        return broken.record.field
    return ""


@pytest.mark.parametrize(("action", "end"), [(Drawn, DrawEnded), (Shared, ShareEnded), (Committed, CommitEnded)])
def test_an_end_stands_exactly_where_the_counts_meet(history, action, end):
    records, facts = history
    assert check(records, facts) == ""
    (place,) = (index for index, record in enumerate(records) if type(record) is end)
    assert type(records[place - 1]) is action
    missing = records[:place] + records[place + 1 :]
    assert check(missing, facts) == ("phase end" if place < len(records) - 1 else "")
    early = [*records[: place - 1], records[place], records[place - 1], *records[place + 1 :]]
    assert check(early, facts) == "phase end"
    twice = [*records[: place + 1], *records[place:]]
    assert check(twice, facts) == "phase end"
