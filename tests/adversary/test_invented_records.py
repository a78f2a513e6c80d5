"""An endpoint invents records: logs that nobody signed, in a transaction that its friend among the members signed.

It wants others' keys replaced, members made up or thrown out, rounds ended or closed with a model of its own. It makes
headers and receipts that fit. What stops it: a record must follow from its transaction's calldata, and whoever signed
that must be somebody who may make the record, by the records before. What it can do is to hide the end.
"""

import random

import pytest
from eth_abi import encode as abi_encode
from eth_utils import to_canonical_address

from fedgrove.chain.crypto import vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import BadHistory
from fedgrove.chain.face.contract import Contract
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.network.blocks import Body
from fedgrove.chain.records import (
    Affirmed,
    Approved,
    Closed,
    Committed,
    Drawn,
    Failed,
    Judged,
    MailboxKeyRotated,
    Registered,
    Released,
    Replaced,
    Resumed,
    Revealed,
    Revoked,
    RoundOpened,
    Sealed,
    Shared,
    Voided,
    Vouched,
    VrfKeyRotated,
    Withdrawn,
    events,
)
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.ledger_view import LedgerView
from tests.adversary.forged_chain import ForgedChain, receipt_of
from tests.adversary.odd_transactions import Odd
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A federation whose first round is sealed."""
    with embedded() as network:
        made = Federation.found(network, tmp_path_factory.mktemp("sealed"), training=QUICK)
        made.register()
        coordinator, clients = made.coordinator(), made.clients()
        while not any(type(each) is Sealed for each in made.ledger(made.keys[0]).records()):
            made.turn(coordinator, clients)
        yield made


DIGEST = b"d" * 32
LEDGER, REGISTRY = "TrainingLedger", "ClientRegistry"


def invented(federation) -> dict[str, tuple[str, str, tuple, type, tuple]]:
    """For each record: the call that the endpoint's friend signs, and the values of the log under it."""
    second, fourth = (federation.keys[number - 1].address for number in (2, 4))
    proof = next(each for each in federation.ledger(federation.keys[0]).records() if isinstance(each, Registered)).proof
    point = vrf.coordinates(Keys.generate().vrf_public)
    return {
        "a member": (REGISTRY, "register", (*point, DIGEST, b""), Registered, (fourth, 5, *point, DIGEST, 99, proof)),
        "a key": (REGISTRY, "rotateVrfKey", (*point, b""), VrfKeyRotated, (second, 2, *point, 99, proof)),
        "a mailbox": (REGISTRY, "rotateMailboxKey", (DIGEST,), MailboxKeyRotated, (second, 2, DIGEST)),
        "a withdrawal": (REGISTRY, "withdraw", (0, DIGEST), Withdrawn, (second, 2, 0, DIGEST)),
        "an approval": (REGISTRY, "approve", ([fourth],), Approved, (fourth, 99)),
        "a revocation": (REGISTRY, "revoke", (second,), Revoked, (second,)),
        "a return": (REGISTRY, "resume", (), Resumed, (second, 2, 99)),
        "a draw": (LEDGER, "draw", (1, *point, DIGEST, DIGEST, 5, b""), Drawn, (1, 2, 5, DIGEST, DIGEST, proof)),
        "shares": (LEDGER, "share", (1, DIGEST), Shared, (1, 2, DIGEST)),
        "an update": (LEDGER, "commit", (1, DIGEST, DIGEST), Committed, (1, 2, DIGEST, DIGEST)),
        "a release": (LEDGER, "release", (1, bytes(32), DIGEST, 0), Released, (1, 2, bytes(32), DIGEST, 0)),
        "a voucher": (LEDGER, "vouch", (1, DIGEST, DIGEST), Vouched, (1, 2, DIGEST, DIGEST)),
        "an affirmation": (LEDGER, "affirm", (1, DIGEST, DIGEST), Affirmed, (1, 2, DIGEST, DIGEST)),
        "a reveal": (LEDGER, "reveal", (1, DIGEST, DIGEST), Revealed, (1, 2, DIGEST, DIGEST)),
        "a model": (LEDGER, "close", (1, DIGEST, DIGEST), Closed, (1, DIGEST, DIGEST)),
        "a failure": (LEDGER, "fail", (1,), Failed, (1,)),
        "a judgement": (LEDGER, "judge", (1, 7, DIGEST, DIGEST), Judged, (1, 2, 7, DIGEST, DIGEST)),
        "a replacement": (LEDGER, "judge", (1, 7, DIGEST, DIGEST), Replaced, (1, DIGEST, DIGEST)),
        "a void round": (LEDGER, "judge", (1, 7, DIGEST, DIGEST), Voided, (1, DIGEST)),
        "a round": (LEDGER, "open", (DIGEST, []), RoundOpened, (2, DIGEST, DIGEST, 1_000_000, 99, 100, [])),
    }


def with_record(federation, name: str) -> ForgedChain:
    """The chain, and one block more with the invented record."""
    contract, function, arguments, kind, values = invented(federation)[name]
    forged = ForgedChain(federation.network)
    address = federation.deployment.registry if contract == REGISTRY else federation.deployment.ledger
    odd = Odd(federation.network, random.Random(0))
    data = Contract(federation.network, contract, address).data(function, *arguments)
    raw = odd.signed(federation.keys[3].account, address, data, "dynamic fee")
    forged.add(Body((raw,), (receipt_of([log_of(address, kind, values)]),)))
    return forged


def log_of(address: str, kind: type, values: tuple) -> list:
    topic, event = next((topic, event) for topic, event in events.EVENTS.items() if event.record is kind)
    split = len(event.indexed)
    indexed = [abi_encode([each], [value]) for each, value in zip(event.indexed, values[:split], strict=True)]
    return [to_canonical_address(address), [topic, *indexed], abi_encode(event.plain, values[split:])]


NAMES = (
    *("a member", "a key", "a mailbox", "a withdrawal", "an approval", "a revocation", "a return", "a draw"),
    *("shares", "an update", "a release", "a model", "a failure", "a judgement", "a replacement", "a void round"),
    *("a voucher", "an affirmation", "a reveal"),
    "a round",
)


@pytest.mark.parametrize("name", NAMES)
def test_no_invented_record_is_acted_on(sealed, name):
    with pytest.raises(BadHistory):
        LedgerView(Ledger(with_record(sealed, name), sealed.deployment)).refresh()


def test_what_it_hides_of_the_end_nobody_notices(sealed):
    """A client that is shown less acts late or not at all. It is never shown less than it knows as something new."""
    forged = ForgedChain(sealed.network)
    full = LedgerView(Ledger(forged, sealed.deployment)).refresh()
    forged.fork(full.sealed.at.block - 1)
    stale = LedgerView(Ledger(forged, sealed.deployment)).refresh()
    assert stale.draws == full.draws and stale.sealed is None
