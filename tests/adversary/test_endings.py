"""One account that ends rounds, or keeps members out, by its word alone.

The coordinator wants rounds to fail after its members released their shares, so that the same updates are summed again
with others; a member wants nobody to read the ledger any more; a stranger wants to be counted. What stops them: only
the clock, a count that the contract has, or more than half of those who committed end a round without a model; an
opening lists only who may not draw, at every rate; who is not approved cannot register.
"""

from dataclasses import replace

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Phase
from fedgrove.node.protocol.ledger_view import LedgerView
from tests.chain.face.test_ledger_endings import committed
from tests.chain.federations import TERMS, found

ZERO = bytes(32)


@pytest.fixture
def federation():
    with embedded() as network:
        yield found(network)


def refuses(name, call, *arguments) -> None:
    with pytest.raises(ContractRevert) as refusal:
        call(*arguments)
    assert refusal.value.name == name


def test_coordinator_fails_no_round_after_its_releases(federation):
    ledger, number = federation.coordinator, committed(federation, 4)
    refuses("WrongPhase", ledger.fail, number)
    for client in federation.clients:
        client.release(number, b"r" * 32)
    for end in (ledger.fail, ledger.skip, federation.clients[0].fail):
        with pytest.raises(ContractRevert):
            end(number)
    assert ledger.round(number).phase is Phase.RECOVER


def test_coordinator_fails_no_round_by_a_judgement_of_its_own(federation):
    number = committed(federation, 4)
    refuses("NotCommitted", federation.coordinator.judge, number, Phase.RECOVER, ZERO, ZERO)


def test_grace_lets_no_member_fail_a_round_whose_update_it_withholds(federation):
    number = committed(federation, 4)
    federation.network.mine(3)  # more than the coordinator's grace
    refuses("WrongPhase", federation.clients[0].fail, number)


def test_junk_judgement_of_less_than_half_changes_nothing(federation):
    number = committed(federation, 4)
    for client in federation.clients:
        client.release(number, b"r" * 32)
    federation.coordinator.close(number, b"\x08" * 32, b"M" * 32)
    for client, model in zip(federation.clients[:2], (b"\x01" * 32, b"\x02" * 32), strict=True):
        client.judge(number, Phase.CLOSED, model, b"M" * 32)
    federation.clients[2].judge(number, Phase.CLOSED, ZERO, ZERO)
    assert federation.coordinator.current_model() == b"\x08" * 32
    assert not federation.coordinator.is_struck(federation.founder.address)
    LedgerView(federation.coordinator).refresh()


@pytest.mark.parametrize("rate", [300_000, 1_000_000])
def test_barred_lists_only_who_may_not_draw(rate):
    """With the rate below one such a list went unseen by the contract, and no reader could go on after it."""
    with embedded() as network:
        federation = found(network, terms=replace(TERMS, rates=((1, rate),)))
        ledger, member = federation.coordinator, federation.keys[0].address
        refuses("NotBarred", ledger.open, ledger.current_model(), [member])
        federation.clients[0].withdraw(0, ZERO)
        ledger.open(ledger.current_model(), [member])
        assert LedgerView(ledger).refresh().opened.barred == (member,)


def test_strangers_do_not_register_where_the_members_are_named():
    with embedded() as network:
        federation = found(network, clients=0, membership="approved")
        stranger = Keys.generate()
        network.fund(stranger.address, 1)
        before = federation.coordinator.records()
        refuses("NotApproved", Ledger(network, federation.deployment, stranger.account).register, stranger)
        assert federation.coordinator.records() == before
