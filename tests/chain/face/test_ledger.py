"""The facade against the shipped contracts on the embedded chain: a whole round, and the refusals that matter."""

from dataclasses import asdict

import pytest

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import BadHistory, ChainError, InsufficientFunds
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.records import (
    Closed,
    Committed,
    DrawEnded,
    Drawn,
    Failed,
    LedgerFounded,
    Phase,
    Registered,
    RegistryFounded,
    Released,
    RoundOpened,
    Sealed,
    SeedFixed,
    Shared,
    ShareEnded,
    Skipped,
)
from fedgrove.chain.records.phases import Deadlines, Ends
from tests.chain.face.ledger_calls import of_kind, refused
from tests.chain.federations import CONFIG, EVERYONE, MODEL, SETTINGS


def test_a_whole_round(federation):
    ledger, network = federation.coordinator, federation.network
    number = federation.sealed()
    for index, client in enumerate(federation.clients):
        client.share(number, bytes([index + 1]) * 32)
    assert ledger.round(number).phase == Phase.SHARE
    network.advance_to(ledger.round(number).share_end)
    for index, client in enumerate(federation.clients[:3]):
        client.commit(number, bytes([index + 1]) * 32, b"h" * 32)
    network.advance_to(ledger.round(number).commit_end)
    for client in federation.clients:
        client.release(number, b"r" * 32)
    receipt = ledger.close(number, b"\x09" * 32, b"M" * 32)
    assert receipt.gas_used > 21_000
    assert receipt.block == network.block_number()
    assert ledger.current_model() == b"\x09" * 32

    records = ledger.records()
    kinds = [RegistryFounded, LedgerFounded] + [Registered] * 4 + [RoundOpened, SeedFixed] + [Drawn] * 4
    kinds += [DrawEnded, Sealed] + [Shared] * 4 + [ShareEnded] + [Committed] * 3 + [Released] * 4 + [Closed]
    assert [type(record) for record in records] == kinds
    assert [(record.at.block, record.at.log_index) for record in records] == sorted(
        (record.at.block, record.at.log_index) for record in records
    )
    opened, seed, sealed = (next(filter(kind, records)) for kind in map(of_kind, (RoundOpened, SeedFixed, Sealed)))
    assert opened == RoundOpened(opened.at, 1, MODEL, CONFIG, EVERYONE, opened.at.block, opened.at.block + 1, ())
    assert seed.block_hash == network.block_hash(opened.seed_block)
    assert seed.seed == tree.seed(seed.block_hash, bytes(32))
    assert sealed.order_seed == tree.order_seed(*federation.place, 1, network.block_hash(ledger.round(1).order_block))
    assert sealed.order_root == tree.order_root(federation.order(number))
    for record, keys in zip(filter(of_kind(Drawn), records), federation.keys, strict=True):
        vrf.verify(keys.vrf_public, record.proof, federation.alpha(number))
    signers = {kind: {record.at.author for record in filter(of_kind(kind), records)} for kind in kinds}
    members = {keys.address for keys in federation.keys}
    assert signers[Registered] == signers[Drawn] == signers[Shared] == signers[Released] == members
    assert signers[Committed] == members - {federation.keys[3].address}
    by_founder = (RegistryFounded, LedgerFounded, RoundOpened, SeedFixed, Sealed, Closed)
    assert all(signers[kind] == {federation.founder.address} for kind in by_founder)
    view = ledger.round(number)
    ends = {kind: next(filter(of_kind(kind), records)).at.block for kind in (DrawEnded, Sealed, ShareEnded)}
    recorded = Ends(ends[DrawEnded], ends[Sealed], ends[ShareEnded])
    deadlines = Deadlines.of(opened.opened_at, SETTINGS, recorded)
    assert (view.phase, view.drawn, view.committed, view.released) == (Phase.CLOSED, 4, 3, 4)
    assert all(getattr(view, name) == block for name, block in asdict(deadlines).items())

    second = federation.sealed()
    fixed = next(record for record in ledger.records() if isinstance(record, SeedFixed) and record.round == second)
    assert fixed.seed == tree.seed(fixed.block_hash, sealed.order_root)


def test_records_are_read_once_and_incrementally(federation):
    ledger = federation.coordinator
    before = ledger.records()
    network, headers, bodies = federation.network, [], []
    read_headers, read_bodies = network.headers, network.bodies
    network.headers = lambda first, last: headers.append((first, last)) or read_headers(first, last)
    network.bodies = lambda numbers: bodies.append(list(numbers)) or read_bodies(numbers)
    federation.open()
    latest = network.block_number()
    since = ledger.records(before[-1].at)
    assert [type(record) for record in since] == [RoundOpened]
    assert (headers, bodies) == ([(latest, latest)], [[latest]])
    assert federation.clients[0].records() == before + since
    assert (len(headers), len(bodies)) == (1, 1)
    network.mine(3)
    assert ledger.records() == before + since
    assert (headers[1:], len(bodies)) == ([(latest + 1, latest + 3)], 1)


def test_only_blocks_that_were_read_have_a_hash(federation):
    ledger, network = federation.coordinator, federation.network
    first, head = federation.deployment.block, network.block_number()
    ledger.records()
    assert all(ledger.block_hash(number) == network.block_hash(number) for number in (first, head))
    assert ledger.confirmed_block() == head
    network.mine(1)
    for number in (first - 1, head + 1):
        with pytest.raises(BadHistory):
            ledger.block_hash(number)


def test_refusals_of_a_round(federation):
    ledger, client = federation.coordinator, federation.clients[0]
    refused("WrongModel", ledger.open, b"\x07" * 32)
    number = federation.open()
    refused("RoundRunning", ledger.open, MODEL)
    federation.to_draw(number)
    refused("SeedFixedAlready", ledger.fix_seed, number)
    federation.draw(number, 0)
    refused("AlreadyDrawn", federation.draw, number, 0)
    refused("DrawStillOpen", ledger.skip, number)
    wrong = refused("WrongPhase", client.share, number, b"x" * 32)
    assert (wrong.arguments["current"], wrong.arguments["required"]) == (Phase.DRAW, Phase.SHARE)
    assert "phase draw" in str(wrong)
    refused("SamplesOutOfRange", federation.clients[1].draw, number, federation.keys[1], federation.alpha(number),
            b"m" * 32, b"s" * 32, 1001)  # fmt: skip
    outsider = Keys.generate()
    federation.network.fund(outsider.address, 1)
    outside = Ledger(federation.network, federation.deployment, outsider.account)
    alpha = federation.alpha(number)
    refused("AccountNotRegistered", outside.draw, number, outsider, alpha, b"m" * 32, b"s" * 32, 1)
    federation.network.advance_to(ledger.round(number).draw_end)
    order_block = ledger.round(number).order_block
    with pytest.raises(BadHistory):
        ledger.seal(number, federation.tickets(number), order_block)
    federation.network.advance_to(order_block)
    refused("QuorumMissed", ledger.seal, number, federation.tickets(number), order_block)
    ledger.skip(number)
    assert isinstance(ledger.records()[-1], Skipped)
    refused("WrongModel", ledger.open, b"\x07" * 32)


def test_refusals_after_the_seal(federation):
    ledger = federation.coordinator
    number = federation.sealed(range(3))
    first, second, _, fourth = federation.clients
    first.share(number, b"x" * 32)
    federation.clients[2].share(number, b"x" * 32)
    refused("AlreadyShared", first.share, number, b"x" * 32)
    refused("NotDrawn", fourth.share, number, b"x" * 32)
    federation.network.advance_to(ledger.round(number).share_end)
    refused("NotShared", second.commit, number, b"x" * 32, b"y" * 32)
    first.commit(number, b"x" * 32, b"y" * 32)
    refused("AlreadyCommitted", first.commit, number, b"x" * 32, b"y" * 32)
    federation.network.advance_to(ledger.round(number).commit_end)
    first.release(number, b"x" * 32)
    refused("AlreadyReleased", first.release, number, b"x" * 32)
    refused("CommitsMissing", ledger.close, number, b"\x08" * 32, b"M" * 32)
    second.fail(number)
    failed = ledger.records()[-1]
    assert failed == Failed(failed.at, number)


def test_a_facade_without_an_account_only_reads(federation):
    reader = Ledger(federation.network, federation.deployment)
    assert (reader.current_round(), reader.current_model()) == (0, MODEL)
    assert reader.confirmed_block(10**6) == 0
    with pytest.raises(ChainError, match="only reads"):
        reader.skip(1)


def test_no_funds(federation):
    poor = Keys.generate()
    with pytest.raises(InsufficientFunds, match="fund"):
        Ledger(federation.network, federation.deployment, poor.account).register(poor)


def test_the_nonce_survives_a_foreign_transaction_of_the_account(federation):
    from fedgrove.chain.network.transactions import Sender

    rival = Sender(federation.network, federation.keys[0].account)
    rival.transact(federation.founder.address, b"", 21_000, value=1)
    federation.clients[0].rotate_mailbox_key(federation.keys[0].with_new_mailbox())
