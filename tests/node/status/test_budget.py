"""What a round cost an account, by an oracle that looks at who sent each transaction."""

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Committed, Drawn, Recovered, Released, RoundOpened, Shared
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.terms import FederationSettings
from fedgrove.node.status.costs import Purse
from tests.node.federation import Federation


@pytest.fixture
def federation(tmp_path):
    with embedded() as network:
        terms = {"training": TrainingSettings(batch_size=20), "federation": FederationSettings(rounds=2)}
        made = Federation.found(network, tmp_path, clients=3, **terms)
        made.register()
        yield made


def budget(federation, keys):
    ledger = federation.ledger(keys)
    view = LedgerView(ledger)
    view.refresh()
    return Purse(federation.network, ledger, keys.address).budget(view.rounds)


def gas_of_rounds(federation, account):
    """Gas of the transactions that this account sent in each round."""
    history = federation.history()
    gas, counted, number = {}, set(), 0
    for record in history.records():
        number = record.round if isinstance(record, RoundOpened) else number
        facts = history.transactions[record.at.transaction]
        if number and facts.sender == account and record.at.transaction not in counted:
            counted.add(record.at.transaction)
            gas[number] = gas.get(number, 0) + facts.gas_used
    return gas


@pytest.mark.parametrize("who", ["client", "coordinator"])
def test_a_round_costs_what_its_transactions_used(federation, who):
    keys = federation.keys[1] if who == "client" else federation.coordinator_keys
    federation.run()
    told, spent = budget(federation, keys), gas_of_rounds(federation, keys.address)
    assert (told.measured, told.gas) == (2, max(spent.values())) and len(spent) == 2
    assert told.balance == federation.network.balance(keys.address)
    assert told.price == federation.network.base_fee() + 1
    assert told.rounds == told.balance // (told.gas * told.price) > 0


def test_before_the_first_round_the_limits_of_gas_count(federation):
    told = budget(federation, federation.keys[0])
    assert (told.measured, told.gas) == (0, sum(kind.GAS for kind in (Drawn, Shared, Committed, Released)))
    assert budget(federation, federation.coordinator_keys).gas > RoundOpened.GAS + Recovered.GAS + Closed.GAS


def test_a_running_round_does_not_count_yet(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    while "committed" not in federation.said("client 3"):
        federation.turn(coordinator, clients)
    assert budget(federation, federation.keys[0]).measured == 0
