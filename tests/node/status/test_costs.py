"""What a federation has cost, and a round costs an account: by receipts, as an oracle finds them that knows senders."""

import pytest

from fedgrove.chain.face.networks import anvil, embedded
from fedgrove.chain.records import Closed, Committed, Drawn, Released, RoundOpened, Shared
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.status.costs import CostReader, Purse
from tests.node.federation import Federation

ETHER = 10**18


@pytest.fixture(scope="module", params=[embedded, anvil])
def federation(request, tmp_path_factory):
    """Two rounds that have ended, on a chain in this process and on one behind JSON-RPC."""
    with request.param() as network:
        made = Federation.found(network, tmp_path_factory.mktemp("federation"), clients=3, rounds=2)
        made.register()
        made.run()
        yield made


def reader(federation) -> CostReader:
    return CostReader(federation.network, federation.ledger(federation.keys[0]))


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


def test_each_account_paid_what_it_lacks(federation):
    costs = reader(federation).read()
    for keys in (federation.coordinator_keys, *federation.keys):
        assert costs.whole(keys.address) == ETHER - federation.network.balance(keys.address) > 0
    accounts = [federation.coordinator_keys, *federation.keys]
    assert costs.whole() == sum(costs.whole(keys.address) for keys in accounts) and not costs.unknown


def test_rounds_and_what_came_before_them_are_the_whole(federation):
    costs, member = reader(federation).read(), federation.keys[0].address
    assert list(costs.rounds()) == list(costs.rounds(member)) == [1, 2]
    assert 0 < sum(costs.rounds().values()) < costs.whole()
    assert sum(costs.rounds(member).values()) < costs.whole(member)
    assert costs.rounds("0x" + "12" * 20) == {}


def test_a_receipt_is_read_once_and_a_lost_one_is_counted(federation, monkeypatch):
    asked, paid = [], federation.network.paid
    lost = federation.history().records()[-1].at.transaction

    def remembering(transactions):
        asked.extend(transactions)
        return [None if one == lost else cost for one, cost in zip(transactions, paid(transactions), strict=True)]

    monkeypatch.setattr(federation.network, "paid", remembering)
    costs = reader(federation)
    first = costs.read()
    assert first.unknown == 1 and len(asked) == len(set(asked))
    del asked[:]
    assert costs.read() == first and asked == [lost]


@pytest.mark.parametrize("who", ["client", "coordinator"])
def test_a_round_costs_what_its_transactions_used(federation, who):
    keys = federation.keys[1] if who == "client" else federation.coordinator_keys
    told, spent = budget(federation, keys), gas_of_rounds(federation, keys.address)
    assert (told.measured, told.gas) == (2, max(spent.values())) and len(spent) == 2
    assert told.balance == federation.network.balance(keys.address)
    assert told.price == federation.network.price() > federation.network.base_fee()
    assert told.rounds == told.balance // (told.gas * told.price) > 0


def test_before_a_round_has_ended_the_limits_of_gas_count(tmp_path):
    with embedded() as network:
        made = Federation.found(network, tmp_path, clients=3, rounds=2)
        made.register()
        told = budget(made, made.keys[0])
        assert (told.measured, told.gas) == (0, sum(kind.GAS for kind in (Drawn, Shared, Committed, Released)))
        assert budget(made, made.coordinator_keys).gas > RoundOpened.GAS + Closed.GAS
        coordinator, clients = made.coordinator(), made.clients()
        while "committed" not in made.said("client 3"):
            made.turn(coordinator, clients)
        assert budget(made, made.keys[0]).measured == 0
