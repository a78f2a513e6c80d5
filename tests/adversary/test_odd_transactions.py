"""A member records things in ways that the contracts take and no library makes, so that nobody can read the ledger on.

It wants every client, coordinator and auditor to stop at its record, for good: a reader that refuses what the contract
took cannot go on. What stops it: readers take whatever the contracts take, whatever the type of the transaction and
the encoding of its calldata; a random walk over hundreds of odd calls compares the two.
"""

import functools
import random
from collections import Counter
from dataclasses import replace

import pytest
from eth_account import Account as EthAccount
from eth_utils import keccak

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import BadHistory, ConnectionFailed
from fedgrove.chain.face.contract import Contract
from fedgrove.chain.face.founding import LEDGER_GAS, REGISTRY_GAS
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect, embedded
from fedgrove.chain.network import block_rlp, blocks, endpoint
from fedgrove.chain.network.history import capture
from fedgrove.chain.network.transactions import sender_of
from fedgrove.chain.records import (
    KINDS as RECORDS,
)
from fedgrove.chain.records import (
    Drawn,
    LedgerFounded,
    Registered,
    RegistryFounded,
    authors,
    calldata,
    signed_draws,
)
from fedgrove.chain.records.deployment import Deployment, created_address, creation_data
from fedgrove.chain.records.signed_draws import sign_draw
from fedgrove.chain.records.signed_transactions import decode_transaction
from fedgrove.common.errors import InvalidContent
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.protocol.bad_record import RuleBroken
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.rounds import Rounds
from tests.adversary.odd_transactions import BLOB, DYNAMIC_FEE, FEE, GAS, KINDS, SET_CODE, UNPROTECTED, Odd
from tests.adversary.odd_walk import BOUNDS, Walk, chosen, copied, extremes
from tests.chain.federations import SETTINGS, TERMS, found
from tests.chain.nodes import anvil_or_skip
from tests.embedded_evm import py_evm

STEPS, MANY_STEPS = 150, 600
WALKS, LONG_STEPS = 20, 500
STOPPED = (BadHistory, RuleBroken)
"""What a reader cannot go on after."""


@pytest.fixture
def federation():
    with py_evm() as network:
        yield found(network)


@pytest.fixture(scope="module")
def anvil_network():
    with anvil_or_skip("--no-request-size-limit") as network:
        yield network


def odd(network, seed: int = 0) -> Odd:
    return Odd(network, random.Random(seed))


def readable(network, deployment) -> bool:
    """Whether a client and an auditor who come now can read the ledger up to its latest record."""
    ledger = Ledger(network, deployment)
    ledger.forget()
    try:
        LedgerView(ledger).refresh()
        history = capture(network, deployment)
        rules = Law(chain_facts(history), Rounds())
        for record in history.records():
            rules.check(record)
            rules.rounds.add(record)
    except STOPPED:
        return False
    return True


def rotate(federation, kind: str, rest: bytes = b"", **options) -> bool:
    """The first member replaces its mailbox key by a transaction of this kind; whether all can read on."""
    network, deployment = federation.network, federation.deployment
    data = Contract(network, "ClientRegistry", deployment.registry).data("rotateMailboxKey", b"k" * 32)
    assert odd(network).send(federation.keys[0].account, deployment.registry, data + rest, kind, **options)
    return readable(network, deployment)


# --- types of transactions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_no_type_of_transaction_stops_the_readers(federation, kind):
    assert rotate(federation, kind)


def test_nor_does_it_behind_json_rpc(anvil_network):
    """The encodings that the roots hash are made of the node's answers there."""
    federation = found(anvil_network, clients=1)
    assert all(rotate(federation, kind) for kind in KINDS if kind != BLOB)


def test_a_blob_transaction_is_encoded_as_the_chain_hashes_it(anvil_network):
    """Anvil puts blobs under its root, against EIP-4844, so that the block itself cannot be proven there."""
    keys, network = Keys.generate(), anvil_network
    network.fund(keys.address, 1)
    fields = {"type": 3, "chainId": network.chain_id, "nonce": 0, "gas": GAS, "value": 0, "to": keys.address}
    fees = {"maxFeePerGas": FEE, "maxPriorityFeePerGas": 0, "maxFeePerBlobGas": FEE}
    signer = EthAccount.from_key(keys.account.key)
    raw = bytes(signer.sign_transaction(fields | fees, blobs=[bytes(1 << 17)]).raw_transaction)
    with connect(network.url, timeout=120) as patient:  # for a first blob the node prepares its tables
        sent = patient.request("eth_sendRawTransaction", "0x" + raw.hex())
    encoded = network.signed_transaction(bytes.fromhex(sent[2:]))
    assert keccak(encoded).hex() == sent[2:]
    assert decode_transaction(encoded).sender == keys.address


@pytest.mark.mutants
def test_a_transaction_for_any_chain_stops_readers_that_want_this_one(federation, monkeypatch):
    def of_this_chain(raw):
        signed = decode_transaction(raw)
        return replace(signed, chain_id=signed.chain_id or 0)

    monkeypatch.setattr(blocks, "decode_transaction", of_this_chain)
    assert not rotate(federation, UNPROTECTED)


@pytest.mark.mutants
def test_an_authorization_that_nobody_signed_stops_readers_that_check_what_the_chain_passes_over(
    federation, monkeypatch
):
    def by_the_library(raw):
        try:
            EthAccount.recover_transaction(raw)
        except Exception:
            raise InvalidContent("not a signed transaction") from None
        return decode_transaction(raw)

    monkeypatch.setattr(blocks, "decode_transaction", by_the_library)
    assert not rotate(federation, SET_CODE)


# --- batches ----------------------------------------------------------------------------------------------------------


def batch_with_copy(federation, encode) -> bool:
    """The second member hands in the first one's draw, and before it a copy of it that it signed itself."""
    number = federation.open()
    federation.to_draw(number)
    first, second = federation.keys[:2]
    signed = sign_draw(federation.deployment, number, first, federation.alpha(number), b"m" * 32, b"s" * 32, 5)
    items = [copied(signed, second, federation.deployment, number), signed]
    assert odd(federation.network).send(second.account, federation.deployment.ledger, encode(number, items), KINDS[3])
    return readable(federation.network, federation.deployment)


def plain(federation):
    ledger = Contract(federation.network, "TrainingLedger", federation.deployment.ledger)
    return lambda number, items: ledger.data("drawBatch", number, [item.as_tuple() for item in items])


def test_a_copy_of_a_draw_beside_it_changes_nobodys_authorship(federation):
    assert batch_with_copy(federation, plain(federation))
    (drawn,) = [record for record in federation.coordinator.records() if isinstance(record, Drawn)]
    assert (drawn.client, drawn.at.author) == (1, federation.keys[0].address)


@pytest.mark.mutants
def test_a_copy_stops_readers_that_take_the_first_item_that_fits(federation, monkeypatch):
    monkeypatch.setattr(authors, "batched_draw", lambda data, item: signed_draws.batched_draw(data, 0))
    assert not batch_with_copy(federation, plain(federation))


@pytest.mark.parametrize("seed", range(6))
def test_a_batch_in_any_order_is_read(federation, seed):
    assert batch_with_copy(federation, odd(federation.network, seed).batch)


@pytest.mark.mutants
def test_offsets_that_wrap_around_stop_readers_that_only_go_forwards(federation, monkeypatch):
    wraps = calldata.word
    for reader in (calldata, signed_draws):
        monkeypatch.setattr(reader, "word", lambda data, place: wraps(data, place) if place < len(data) else 0)
    assert not batch_with_copy(federation, odd(federation.network).batch)


# --- founding ---------------------------------------------------------------------------------------------------------


def founded_with_an_early_member() -> bool:
    """Somebody registers after the registry was created and before the ledger was."""
    with py_evm() as network:
        founder, quick = Keys.generate(), Keys.generate()
        for keys in (founder, quick):
            network.fund(keys.address, 10)
        addresses = [created_address(founder.address, nonce) for nonce in (0, 1)]
        block = network.block_number() + 1
        rest = (block, founder.address, founder.address, "0x" + 40 * "0", "open", (), 1, SETTINGS, TERMS)
        deployment = Deployment(network.chain_id, *addresses, *rest)
        sender = sender_of(network, founder.account)
        sender.transact(None, creation_data("ClientRegistry", deployment), REGISTRY_GAS)
        Ledger(network, deployment, quick.account).register(quick)
        sender.transact(None, creation_data("TrainingLedger", deployment), LEDGER_GAS)
        kinds = [type(record) for record in Ledger(network, deployment).records()]
        assert kinds == [RegistryFounded, Registered, LedgerFounded]
        return readable(network, deployment)


def test_who_registers_before_the_ledger_is_there_stops_nobody():
    assert founded_with_an_early_member()


# --- size -------------------------------------------------------------------------------------------------------------


HUGE = bytes((1 << 20) + 1)


def rotate_hugely(anvil_network) -> bool:
    federation = found(anvil_network, clients=1)
    return rotate(federation, KINDS[3], HUGE, gas=15_000_000)


def test_rubbish_behind_the_arguments_stops_nobody(anvil_network):
    assert rotate_hugely(anvil_network)


@pytest.mark.mutants
def test_rubbish_stops_readers_that_bound_calldata(anvil_network, monkeypatch):
    monkeypatch.setattr(block_rlp, "MAX_DATA_BYTES", 1 << 20)
    with pytest.raises(ConnectionFailed, match="sends answers that are not an EVM node's"):
        rotate_hugely(anvil_network)


def test_blocks_that_fill_an_answer_are_read_one_by_one(anvil_network, monkeypatch):
    """Each of many blocks is read, and all of them together are more than is read of one answer."""
    federation = found(anvil_network, clients=1)
    monkeypatch.setattr(endpoint, "MAX_ANSWER_BYTES", 1 << 20)
    for _ in range(12):
        rotate(federation, KINDS[3], HUGE[: 1 << 17])
    with connect(anvil_network.url) as network:
        assert len(Ledger(network, federation.deployment).records()) == 15


# --- everything at random ---------------------------------------------------------------------------------------------


def walk(seed: int, steps: int) -> Walk:
    with py_evm() as network:
        found = Walk(network, seed)
        for _ in range(steps):
            found.step()
        assert readable(network, found.federation.deployment)
        return found


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_contracts_take_is_read(seed):
    taken = walk(seed, STEPS)
    assert sum(taken.taken.values()) > STEPS // 15, taken.taken


@pytest.mark.statistics
def test_thousands_of_odd_calls_are_read():
    taken, kinds = Counter(), Counter()
    for seed in range(100, 112):
        walked = walk(seed, MANY_STEPS)
        taken.update(walked.taken)
        kinds.update(walked.odd.taken)
    assert all(taken.values()) and sum(taken.values()) > 2_000, taken
    assert all(kinds[kind] > 200 for kind in KINDS), kinds


# --- the contracts and the law, both ways -----------------------------------------------------------------------------


@functools.cache
def long_walk(seed: int) -> tuple[Counter, Counter, set[type]]:
    """Calls that took effect, calls whose record the law refused, and the kinds of the records of a walk."""
    with embedded() as network:
        walked = Walk(network, seed, (DYNAMIC_FEE,), far=3)
        for _ in range(LONG_STEPS):
            walked.step()
        return Counter(walked.taken), Counter(walked.refused), set(map(type, walked.ledger.records()))


@pytest.mark.walk
@pytest.mark.parametrize("seed", range(WALKS))
def test_the_law_takes_what_the_contracts_take_and_nothing_else(seed):
    assert sum(long_walk(seed)[0].values()) > LONG_STEPS // 20


@pytest.mark.walk
@pytest.mark.timeout(3_600)
def test_long_walks_leave_each_record_and_have_each_call_taken_and_refused():
    walks = list(map(long_walk, range(WALKS)))
    taken, refused = (sum(counts, Counter()) for counts in list(zip(*walks, strict=True))[:2])
    left = set().union(*(kinds for *_, kinds in walks))
    assert left == set(RECORDS), set(RECORDS) - left
    functions = {kind.CALLS[0] for kind in RECORDS if kind.CALLS}
    assert all(taken[name] and refused[name] for name in functions), (taken, refused)


def test_walks_have_the_least_and_the_largest_of_each_setting():
    bounds = {(name, value) for seed in range(WALKS) for name, value in extremes(seed).items()}
    names = {name for name, _ in bounds}
    assert len(bounds) == 2 * len(names) and names == set(BOUNDS)
    for seed in range(WALKS):
        settings = chosen(seed, random.Random(seed))
        for name, value in extremes(seed).items():
            bound = {"releases": settings.quorum, "judges": settings.quorum, "coordinator_grace": (1 << 16) // 4 - 1}
            assert getattr(settings, name) in (value, bound.get(name), {"max_clients": settings.quorum}.get(name))
