"""Members at the ledger, on the shipped contracts: they register, rotate keys, leave, are approved, and revoked."""

from fedgrove.chain.crypto import vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import (
    MailboxKeyRotated,
    VrfKeyRotated,
    Withdrawn,
)
from tests.chain.face.ledger_calls import refused
from tests.chain.federations import found


def test_registration(federation):
    ledger, keys = federation.clients[0], federation.keys[0]
    count = len(ledger.records())
    ledger.register(keys)
    assert len(ledger.records()) == count
    refused("AlreadyRegistered", ledger.register, keys.with_new_mailbox())
    assert ledger.client_of(keys.address).client == 1
    assert ledger.client_of(Keys.generate().address).client == 0
    stranger = Keys.generate()
    federation.network.fund(stranger.address, 1)
    thief = Ledger(federation.network, federation.deployment, stranger.account)
    stolen = Keys(stranger.account, keys.vrf, stranger.mailbox, stranger.storage)
    assert refused("KeyTaken", thief.register, stolen).arguments["owner"].lower() == keys.address.lower()


def test_rotation(federation):
    ledger, keys = federation.clients[0], federation.keys[0]
    fresh = keys.with_new_vrf().with_new_mailbox()
    assert ledger.holds_vrf_key(keys)
    assert not ledger.holds_vrf_key(fresh)
    ledger.rotate_vrf_key(fresh)
    ledger.rotate_mailbox_key(fresh)
    assert ledger.holds_vrf_key(fresh)
    rotated, mailbox = ledger.records()[-2:]
    assert isinstance(rotated, VrfKeyRotated)
    assert (rotated.vrf_x, rotated.vrf_y) == vrf.coordinates(fresh.vrf_public)
    assert mailbox == MailboxKeyRotated(mailbox.at, keys.address, 1, fresh.mailbox_public)
    refused("AlreadyRegistered", ledger.register, keys)
    number = federation.open()
    federation.to_draw(number)
    refused("KeyMismatch", ledger.draw, number, keys, federation.alpha(number), b"m" * 32, b"s" * 32, 1)


def test_a_withdrawal_is_a_record_of_the_registry(federation):
    ledger, keys = federation.clients[1], federation.keys[1]
    ledger.withdraw(7, b"w" * 32)
    record = ledger.records()[-1]
    assert record == Withdrawn(record.at, keys.address, 2, 7, b"w" * 32)
    stranger = Keys.generate()
    federation.network.fund(stranger.address, 1)
    refused("NotRegistered", Ledger(federation.network, federation.deployment, stranger.account).withdraw, 0, bytes(32))


def test_approval():
    with embedded() as network:
        federation = found(network, clients=0, membership="approved")
        admin = federation.coordinator
        refused("NotApproved", federation.join, False)
        account = federation.keys[0].address
        admin.approve(account)
        federation.clients[0].register(federation.keys[0])
        admin.revoke(account)
        network.mine(1)
        number = federation.open()
        federation.to_draw(number)
        refused("NotApproved", federation.draw, number, 0)
        refused("NotAdmin", federation.clients[0].approve, account)
        admin.approve(account)
        assert admin.client_of(account).approved
        refused("NotYetActive", federation.draw, number, 0)
        admin.revoke(account)
        assert not admin.client_of(account).approved


def test_a_revocation_acts_from_the_next_round_on():
    with embedded() as network:
        federation = found(network, clients=2, membership="approved")
        admin = federation.coordinator
        number = federation.open()
        federation.to_draw(number)
        for keys in federation.keys:
            admin.revoke(keys.address)
        federation.draw(number, 0)
        federation.draw(number, 1)
        federation.seal(number)
        federation.clients[0].share(number, b"x" * 32)
        network.advance_to(admin.round(number).recover_end)
        admin.fail(number)
        number = federation.open()
        federation.to_draw(number)
        refused("NotApproved", federation.draw, number, 0)
