"""The facade against the shipped contracts on the embedded chain: a whole round, and the refusals that matter."""

from dataclasses import asdict, replace

import pytest
from federations import CONFIG, EVERYONE, MODEL, SETTINGS, TERMS, found
from fedgrove.chain import tree, vrf
from fedgrove.chain.blocks import BadHistory
from fedgrove.chain.draws import sign_draw
from fedgrove.chain.errors import ChainError, ContractRevert, InsufficientFunds, error_name
from fedgrove.chain.keys import Keys
from fedgrove.chain.ledger import Ledger
from fedgrove.chain.networks import embedded
from fedgrove.chain.phases import Deadlines, Ends
from fedgrove.chain.records import (
    AbsenceRecorded,
    Closed,
    Committed,
    Disputed,
    DrawEnded,
    Drawn,
    DrawRejected,
    Failed,
    FailureReason,
    LedgerFounded,
    MailboxKeyRotated,
    Phase,
    Recovered,
    Registered,
    RegistryFounded,
    Released,
    RoundOpened,
    SealChunk,
    Sealed,
    SeedFixed,
    Shared,
    ShareEnded,
    Skipped,
    Voided,
    VrfKeyRotated,
    Withdrawn,
)


def of_kind(kind):
    return lambda record: isinstance(record, kind)


def refused(name, call, *arguments):
    with pytest.raises(ContractRevert) as refusal:
        call(*arguments)
    assert refusal.value.name == name
    assert str(refusal.value).endswith(".")
    return refusal.value


def test_a_whole_round(federation):
    ledger, network = federation.coordinator, federation.network
    number = federation.sealed()
    for index, client in enumerate(federation.clients):
        client.share(number, bytes([index + 1]) * 32)
    assert ledger.phase(number) == Phase.SHARE
    network.advance_to(ledger.round(number).share_end)
    for index, client in enumerate(federation.clients[:3]):
        client.commit(number, bytes([index + 1]) * 32, b"h" * 32)
    network.advance_to(ledger.round(number).commit_end)
    for client in federation.clients:
        client.release(number, b"r" * 32)
    ledger.recover(number, b"R" * 32)
    receipt = ledger.close(number, b"\x09" * 32, b"M" * 32)
    assert receipt.gas_used > 21_000
    assert receipt.block == network.block_number()
    assert ledger.current_model() == b"\x09" * 32
    ledger.report_absences(number, [federation.keys[3].address])

    records = ledger.records()
    kinds = [RegistryFounded, LedgerFounded] + [Registered] * 4 + [RoundOpened, SeedFixed] + [Drawn] * 4
    kinds += (
        [DrawEnded, Sealed]
        + [Shared] * 4
        + [ShareEnded]
        + [Committed] * 3
        + [Released] * 4
        + [Recovered, Closed, AbsenceRecorded]
    )
    assert [type(record) for record in records] == kinds
    assert [(record.at.block, record.at.log_index) for record in records] == sorted(
        (record.at.block, record.at.log_index) for record in records
    )
    opened, seed, sealed = (next(filter(kind, records)) for kind in map(of_kind, (RoundOpened, SeedFixed, Sealed)))
    assert opened == RoundOpened(opened.at, 1, MODEL, CONFIG, EVERYONE, opened.at.block, opened.at.block + 1, 0)
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
    by_founder = (RegistryFounded, LedgerFounded, RoundOpened, SeedFixed, Sealed, Recovered, Closed)
    assert all(signers[kind] == {federation.founder.address} for kind in by_founder)
    view = ledger.round(number)
    ends = {kind: next(filter(of_kind(kind), records)).at.block for kind in (DrawEnded, Sealed, ShareEnded, Recovered)}
    recorded = Ends(ends[DrawEnded], ends[Sealed], ends[ShareEnded], 0, ends[Recovered])
    deadlines = Deadlines.of(opened.opened_at, SETTINGS, recorded)
    assert (view.phase, view.drawn, view.committed) == (Phase.CLOSED, 4, 3)
    assert all(getattr(view, name) == block for name, block in asdict(deadlines).items())
    assert ledger.client_of(federation.keys[3].address).absences == 1

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
        federation = found(network, clients=1, open_membership=False)
        admin, account = federation.coordinator, federation.keys[0].address
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
        federation = found(network, clients=2, open_membership=False)
        admin = federation.coordinator
        for keys in federation.keys:
            admin.approve(keys.address)
        network.mine(1)
        number = federation.open()
        federation.to_draw(number)
        for keys in federation.keys:
            admin.revoke(keys.address)
        federation.draw(number, 0)
        federation.draw(number, 1)
        federation.seal(number)
        federation.clients[0].share(number, b"x" * 32)
        network.advance_to(admin.round(number).recover_end)
        admin.fail(number, FailureReason.DEADLINE, b"e" * 32)
        number = federation.open()
        federation.to_draw(number)
        refused("NotApproved", federation.draw, number, 0)


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


def test_no_round_beyond_the_terms():
    with embedded() as network:
        federation = found(network, terms=replace(TERMS, rounds=1, repeats=1))
        number = federation.open()
        federation.network.advance_to(federation.coordinator.round(number).draw_end)
        federation.coordinator.skip(number)
        closed(federation, 4, b"\x08" * 32)
        over = refused("FederationOver", federation.open)
        assert over.arguments == {"opened": 2, "closed": 1}


def test_an_order_by_another_block_is_refused(federation):
    """Sorted by the randomness of a block that suits the sender, the tickets do not ascend by the contract's keys."""
    ledger, number = federation.coordinator, federation.open()
    federation.to_draw(number)
    for index in range(4):
        federation.draw(number, index)
    tickets, order_block = federation.tickets(number), ledger.round(number).order_block
    federation.network.advance_to(order_block)
    ledger.records()
    right = federation.order(number)
    hashes = ((block, ledger.block_hash(block)) for block in range(order_block - 1, 0, -1))
    other = next(block for block, found in hashes if sorted_by(federation, number, tickets, found) != right)
    refused("TicketsNotAscending", ledger.seal, number, tickets, other)
    ledger.seal(number, tickets, order_block)


def sorted_by(federation, number, tickets, randomness):
    return tree.order(tickets, tree.order_seed(*federation.place, number, randomness))


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
    refused("OnlyCoordinator", first.recover, number, b"x" * 32)
    first.release(number, b"x" * 32)
    refused("AlreadyReleased", first.release, number, b"x" * 32)
    ledger.fail(number, FailureReason.TOO_FEW_SURVIVORS, b"e" * 32)
    failed = ledger.records()[-1]
    assert failed == Failed(failed.at, number, FailureReason.TOO_FEW_SURVIVORS, b"e" * 32)
    refused("NotLatestClosed", ledger.report_absences, number, [federation.keys[1].address])


def test_a_report_of_absences_is_complete_or_refused(federation):
    ledger, accounts = federation.coordinator, [keys.address for keys in federation.keys]
    first = closed(federation, 2, b"\x08" * 32)
    refused("ReportIncomplete", ledger.report_absences, first, accounts[2:3])
    refused("ReportIncomplete", ledger.report_absences, first, accounts[1:])
    refused("NotAbsent", ledger.report_absences, first, accounts[1:3])
    refused("ReportNotAscending", ledger.report_absences, first, accounts[2:3] * 2)
    assert not any(isinstance(record, AbsenceRecorded) for record in ledger.records())
    running = federation.open()
    refused("DrawStillOpen", ledger.report_absences, first, accounts[2:])
    federation.network.advance_to(ledger.round(running).draw_end)
    ledger.report_absences(first, accounts[2:])
    told = [record for record in ledger.records() if isinstance(record, AbsenceRecorded)]
    assert [record.client for record in told] == sorted((3, 4), key=lambda client: int(accounts[client - 1], 16))
    ledger.report_absences(first, accounts[2:])
    assert ledger.records()[-2:] == told
    ledger.skip(running)
    refused("NotLatestClosed", ledger.report_absences, first, accounts[2:])
    with pytest.raises(ValueError, match="at least one"):
        ledger.report_absences(first, [])


def closed(federation, committers, model):
    """A round in which all clients draw, and which ``committers`` of them commit in, closed with ``model``."""
    number = federation.sealed()
    for client in federation.clients[:committers]:
        client.share(number, b"x" * 32)
    federation.network.advance_to(federation.coordinator.round(number).share_end)
    for client in federation.clients[:committers]:
        client.commit(number, b"x" * 32, b"y" * 32)
    federation.network.advance_to(federation.coordinator.round(number).commit_end)
    federation.coordinator.recover(number, b"R" * 32)
    federation.coordinator.close(number, model, b"M" * 32)
    return number


def test_most_clients_void_a_round_and_the_one_that_runs_on_it(federation):
    ledger, (first, second, third, fourth) = federation.coordinator, federation.clients
    stood = closed(federation, 4, b"\x08" * 32)
    number = closed(federation, 3, b"\x09" * 32)
    running = federation.sealed(range(2))
    refused("NotDisputable", first.dispute, stood, b"e" * 32)
    refused("NotCommitted", fourth.dispute, number, b"e" * 32)
    refused("NotCommitted", ledger.dispute, number, b"e" * 32)
    first.dispute(number, b"e" * 32)
    refused("AlreadyDisputed", first.dispute, number, b"e" * 32)
    assert (ledger.phase(number), ledger.current_model()) == (Phase.CLOSED, b"\x09" * 32)
    third.dispute(number, b"f" * 32)

    last = ledger.records()[-4:]
    places = [record.at for record in last]
    assert last == [
        Disputed(places[0], number, 1, b"e" * 32),
        Disputed(places[1], number, 3, b"f" * 32),
        Voided(places[2], number, b"\x08" * 32, 2),
        Voided(places[3], running, b"\x08" * 32, 0),
    ]
    assert (ledger.phase(number), ledger.phase(running)) == (Phase.VOIDED, Phase.VOIDED)
    assert ledger.current_model() == b"\x08" * 32
    wrong = refused("WrongPhase", first.share, running, b"x" * 32)
    assert "phase voided" in str(wrong)
    refused("NotDisputable", second.dispute, number, b"e" * 32)
    refused("NotLatestClosed", ledger.report_absences, running, [federation.keys[3].address])
    refused("WrongModel", ledger.open, b"\x09" * 32)
    assert federation.open() == running + 1


def test_an_overdue_round_fails_by_anyone(federation):
    ledger, client = federation.coordinator, federation.clients[0]
    number = federation.sealed(range(3))
    federation.network.advance_to(ledger.round(number).recover_end)
    client.fail(number, FailureReason.INVALID_UPDATE, b"e" * 32)
    assert ledger.records()[-1].reason is FailureReason.DEADLINE


def test_absentees_sit_out(federation):
    ledger, address = federation.coordinator, federation.keys[3].address
    for model in (b"\x08" * 32, b"\x09" * 32):
        number = closed(federation, 3, model)
        federation.clients[0].report_absences(number, [address])
    assert ledger.sits_out_until(address) == number + 1
    number = federation.open()
    federation.to_draw(number)
    refused("SittingOut", federation.draw, number, 3)


def test_a_batch_passes_over_bad_draws(federation):
    ledger, deployment = federation.coordinator, federation.deployment
    number = federation.open()
    federation.to_draw(number)
    alpha = federation.alpha(number)
    items = [sign_draw(deployment, number, keys, alpha, b"m" * 32, b"s" * 32, 5) for keys in federation.keys]
    forged = sign_draw(deployment, number + 1, federation.keys[0], alpha, b"m" * 32, b"s" * 32, 5)
    ledger.draw_batch(number, [forged, *items, items[0]])
    last = ledger.records()[-7:]
    assert [type(record) for record in last] == [DrawRejected] + [Drawn] * 4 + [DrawEnded, DrawRejected]
    assert [error_name(last[0].reason), error_name(last[-1].reason)] == ["BadSignature", "WrongPhase"]
    assert [record.at.author for record in last[1:-2]] == [keys.address for keys in federation.keys]
    assert {record.at.author for record in (last[0], *last[-2:])} == {federation.founder.address}
    with pytest.raises(ValueError, match="batch"):
        ledger.draw_batch(number, [])


def test_a_rate_below_one_selects_by_the_vrf():
    with embedded() as network:
        federation = found(network, terms=replace(TERMS, rates=((1, 300_000), (2, 600_000))))
        for rate in (300_000, 600_000):
            number = federation.open()
            assert federation.coordinator.round(number).sampling_rate == rate
            federation.to_draw(number)
            alpha = federation.alpha(number)
            for index, keys in enumerate(federation.keys):
                beta = vrf.proof_to_hash(vrf.prove(keys.vrf, alpha))
                if tree.is_drawn(beta, rate):
                    federation.draw(number, index)
                else:
                    refused("NotSelected", federation.draw, number, index)
            network.advance_to(federation.coordinator.round(number).seal_end)
            federation.clients[0].fail(number, FailureReason.DEADLINE, bytes(32))


def test_a_large_order_is_sealed_in_chunks(federation, monkeypatch):
    monkeypatch.setattr("fedgrove.chain.ledger.MAX_SEAL", 2)
    monkeypatch.setattr("fedgrove.chain.ledger.MAX_CHUNK", 3)
    number = federation.sealed()
    assert federation.coordinator.round(number).order_root == tree.order_root(federation.order(number))
    assert [record.placed for record in federation.coordinator.records() if isinstance(record, SealChunk)] == [3, 4]


def test_the_randao_mix_orders_where_the_terms_say_so():
    with embedded() as network:
        federation = found(network, settings=replace(SETTINGS, randao=True))
        number, ledger = federation.sealed(), federation.coordinator
        sealed = next(filter(of_kind(Sealed), ledger.records()))
        mix = ledger.block_randomness(ledger.round(number).order_block)
        assert sealed.order_seed == tree.order_seed(*federation.place, number, mix)


def test_a_facade_without_an_account_only_reads(federation):
    reader = Ledger(federation.network, federation.deployment)
    assert reader.settings() == SETTINGS
    assert (reader.current_round(), reader.current_model()) == (0, MODEL)
    assert reader.confirmed_block(10**6) == 0
    with pytest.raises(ChainError, match="only reads"):
        reader.skip(1)


def test_no_funds(federation):
    poor = Keys.generate()
    with pytest.raises(InsufficientFunds, match="fund"):
        Ledger(federation.network, federation.deployment, poor.account).register(poor)


def test_the_nonce_survives_a_foreign_transaction_of_the_account(federation):
    from fedgrove.chain.transactions import Sender

    rival = Sender(federation.network, federation.keys[0].account)
    rival.transact(federation.founder.address, b"", 21_000, value=1)
    federation.clients[0].rotate_mailbox_key(federation.keys[0].with_new_mailbox())
