"""What a federation has cost, by receipts: what is missing in its accounts, and no more."""

import pytest

from fedgrove.chain.face.networks import anvil, embedded
from fedgrove.node.status.costs import CostReader
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
