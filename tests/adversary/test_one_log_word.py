"""An endpoint, or whoever hands on a history, changes one word of one log, and every program that reads it ends.

The word says where the bytes of a proof begin, or how many they are, in ``Registered`` or ``Drawn``: 2⁶³ − 1 or more,
at which Python's streams raise OverflowError, which nobody expected of a decoder. Roots and hashes fit, as whoever
makes up a whole chain can see to. What stops it: decoders raise nothing but their own errors, whatever the bytes;
readers turn those into a fault of the chain, services survive it, audits make a verdict of it. The rest of this file
changes everything else at random: logs, receipts, headers, transactions and files.
"""

import io
import random
from contextlib import nullcontext, suppress
from dataclasses import replace

import pytest
import rlp
from eth_abi import decode
from eth_abi.exceptions import DecodingError
from rlp.exceptions import RLPException

from fedgrove.chain.errors import BadHistory, ChainError
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.network import blocks, record_index
from fedgrove.chain.network.block_rlp import DecodedReceipt, type_of
from fedgrove.chain.network.blocks import Body, check_block
from fedgrove.chain.network.blocks import addresses_of as addresses
from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import Drawn, Log, Registered, events
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.archive import LEDGER, audit_directory, chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.follow import READINGS, Follower
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.roles.logs import ServiceLog
from fedgrove.node.roles.metrics import ServiceMetrics
from fedgrove.node.roles.service import GivenUp, Service
from fedgrove.node.status.standing import standing
from tests.adversary.forged_chain import ForgedChain
from tests.adversary.mutations import changed_bytes, changed_line, changed_rlp, changed_word
from tests.chain.federations import found

COUNT, MANY = 200, 3_000
NUMBERS = (2**63 - 1, 2**63, 2**255, 2**256 - 1)
POINTER = {Registered: 4, Drawn: 3}
"""Which word of the log's data points at the proof, whose length is the next."""


@pytest.fixture(scope="module")
def federation():
    """Four members, of whom three drew and whose order is sealed."""
    with embedded() as network:
        made = found(network)
        made.sealed(range(3))
        yield made


@pytest.fixture(scope="module")
def copy(federation):
    return ForgedChain(federation.network)


@pytest.fixture
def forged(copy):
    return copy.copy()


def change(forged: ForgedChain, federation, kind: type, number: int, after: int = 1) -> None:
    """Change one word of the last such record: the one ``after`` the pointer."""
    record = [each for each in federation.coordinator.records() if isinstance(each, kind)][-1]
    (log,) = [each for each in raw_logs(federation) if each.at[:3] == record.at[:3]]
    start = 32 * (POINTER[kind] + after)
    forged.alter(record.at, data=log.data[:start] + number.to_bytes(32, "big") + log.data[start + 32 :])


def raw_logs(federation) -> list[Log]:
    place = federation.deployment
    return federation.network.logs(place.block, federation.network.block_number(), (place.registry, place.ledger))


def decoder_that_expects_no_overflow(kinds, data):
    """As records were decoded before."""
    try:
        return decode(list(kinds), data)
    except DecodingError as fault:
        raise InvalidContent(str(fault)) from None


# --- who reads it -----------------------------------------------------------------------------------------------------


def read_log(forged, federation, directory):
    deployment = federation.deployment
    logs = forged.logs(deployment.block, forged.block_number(), (deployment.registry, deployment.ledger))
    for log in logs:
        events.decode_from(log, deployment)


def read_history(forged, federation, directory):
    history = forged.history(federation.deployment)
    history.verify()
    history.save(directory / LEDGER)
    LedgerHistory.load(directory / LEDGER).records()


def read_view(forged, federation, directory):
    LedgerView(Ledger(forged, federation.deployment)).refresh()


def read_status(forged, federation, directory):
    standing(Ledger(forged, federation.deployment), federation.keys[0].address)


class Waited(Exception):
    """A service has looked once, and waits for the next block."""


def serve(forged, federation, log):
    """A service with no patience for a chain that cannot be read, until it waits for a block."""

    class Role:
        account, finished = federation.keys[0].address, False
        view = LedgerView(Ledger(forged, federation.deployment))

        def step(self):
            self.view.refresh()
            raise AssertionError("it could be read")

    class Heads:
        def wait(self, seconds):
            raise Waited

    Service({"client": Role()}, Heads(), ServiceLog("client", log), ServiceMetrics(), patience=0).run()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("kind", POINTER)
@pytest.mark.parametrize("read", [read_log, read_history, read_view, read_status])
def test_readers_call_it_a_fault_of_the_chain(federation, forged, tmp_path, read, kind, after, number):
    change(forged, federation, kind, number, after)
    with pytest.raises(BadHistory, match=f"well-formed {kind.__name__}"):
        read(forged, federation, tmp_path)


@pytest.mark.parametrize("kind", POINTER)
def test_a_service_notes_it_and_goes_on_as_long_as_it_may(federation, forged, kind):
    change(forged, federation, kind, NUMBERS[0])
    with pytest.raises(GivenUp, match=f"well-formed {kind.__name__}"):
        serve(forged, federation, io.StringIO())


@pytest.mark.parametrize("kind", POINTER)
def test_an_audit_makes_a_verdict_of_it(federation, forged, tmp_path, kind):
    change(forged, federation, kind, NUMBERS[0])
    DiskStore(tmp_path / "store")
    forged.history(federation.deployment).save(tmp_path / LEDGER)
    verdict = audit_directory(tmp_path)
    assert (verdict.verdict, verdict.first_bad_record.field) == ("bad record", "ledger")
    assert f"well-formed {kind.__name__}" in verdict.reason


def test_an_audit_that_follows_makes_a_verdict_of_it(federation, forged, tmp_path):
    change(forged, federation, Drawn, NUMBERS[0])
    follower = Follower(forged, federation.deployment, DiskStore(tmp_path / "store"))
    looks = [follower.look() for _ in range(READINGS)]
    assert looks[:-1] == [None] * (READINGS - 1)
    assert looks[-1].verdict == "bad record"


@pytest.mark.parametrize("kind", POINTER)
@pytest.mark.parametrize("read", [read_log, read_history, read_view, read_status])
def test_it_ends_readers_whose_decoder_expects_no_overflow(federation, forged, tmp_path, monkeypatch, read, kind):
    monkeypatch.setattr(events, "decode_abi", decoder_that_expects_no_overflow)
    change(forged, federation, kind, NUMBERS[0])
    with pytest.raises(OverflowError):
        read(forged, federation, tmp_path)


def test_a_service_survives_even_such_a_decoder(federation, forged, monkeypatch):
    """It cannot say what is wrong then, and does not give up: nobody knows whose fault it is."""
    monkeypatch.setattr(events, "decode_abi", decoder_that_expects_no_overflow)
    change(forged, federation, Drawn, NUMBERS[0])
    log = io.StringIO()
    with pytest.raises(Waited):
        serve(forged, federation, log)
    assert "unexpected error" in log.getvalue() and "OverflowError" in log.getvalue()


# --- everything else at random ----------------------------------------------------------------------------------------


def use(forged: ForgedChain, federation, directory) -> None:
    """Read made-up blocks to the end, as a role and as an auditor; what they are not, is told by declared errors."""
    with suppress(ChainError):
        LedgerView(Ledger(forged, federation.deployment)).refresh()
    audit(forged.history(federation.deployment), directory)


def audit(history: LedgerHistory, directory) -> None:
    try:
        history.verify()
        records = history.records()
        history.transactions  # noqa: B018
    except BadHistory:
        return
    Auditor(chain_facts(history), records, DiskStore(directory / "store")).run()


def changed_log(forged, federation, chance, directory) -> None:
    log = chance.choice(raw_logs(federation))
    data = chance.choice([changed_word, changed_bytes])(log.data, chance)
    topics = list(log.topics)
    if chance.random() < 0.4:
        place = chance.randrange(len(topics))
        topics[place] = changed_word(topics[place], chance)
    for changed in (replace(log, data=data), replace(log, topics=tuple(topics)), replace(log, topics=log.topics[:1])):
        try:
            events.decode(changed)
        except BadHistory as fault:
            assert fault.block == log.at.block and f"log {log.at.log_index}" in str(fault)
    forged.alter(log.at, data, topics)
    use(forged, federation, directory)


def changed_body(forged, federation, chance, directory, transactions: bool) -> None:
    """Roots that fit are made, where that can be; what cannot, is also checked against the true roots."""
    number = chance.choice([log.at.block for log in raw_logs(federation)])
    body = forged.body(number)
    parts = [list(body.transactions), list(body.receipts)]
    part = parts[0 if transactions else 1]
    place = chance.randrange(len(part))
    part[place] = changed_rlp(part[place], chance)
    if chance.random() < 0.1:
        part.append(part[place])
    changed = Body(*map(tuple, parts))
    true = forged.history(federation.deployment)
    index = number - true.first_block
    blocks = (*true.blocks[:index], replace(true.blocks[index], body=changed), *true.blocks[index + 1 :])
    with pytest.raises(BadHistory) if changed != body else nullcontext():
        LedgerHistory(true.deployment, blocks).verify()
    forged.put_unread(number, changed)
    use(forged, federation, directory)


def changed_receipt(forged, federation, chance, directory) -> None:
    changed_body(forged, federation, chance, directory, transactions=False)


def changed_transaction(forged, federation, chance, directory) -> None:
    changed_body(forged, federation, chance, directory, transactions=True)


def changed_header(forged, federation, chance, directory) -> None:
    number = chance.randrange(federation.deployment.block, forged.block_number() + 1)
    made = forged._made(number)
    if chance.random() < 0.5:
        place = chance.randrange(len(made.fields))
        forged.set(number, {place: chance.choice([changed_bytes, changed_word])(made.fields[place], chance)})
        use(forged, federation, directory)
    header = changed_rlp(made.header, chance)
    block = replace(forged.history(federation.deployment).blocks[0], header=header)
    try:
        check_block(number, block, None, addresses(federation.deployment))
    except BadHistory:
        return
    assert header == made.header


def changed_file(forged, federation, chance, directory) -> None:
    path = directory / LEDGER
    true = forged.history(federation.deployment)
    true.save(path)
    lines = path.read_bytes().splitlines(keepends=True)
    place = chance.choice([0, chance.randrange(len(lines))])
    lines[place] = changed_line(lines[place], chance)
    path.write_bytes(b"".join(lines))
    for read in (LedgerHistory.load, LedgerHistory.peek):
        try:
            found = read(path)
        except BadHistory:
            continue
        if read is LedgerHistory.load and found != true:
            audit(found, directory)


CHANGES = [changed_log, changed_receipt, changed_transaction, changed_header, changed_file]


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_is_changed_only_declared_errors_are_raised(federation, copy, tmp_path, monkeypatch, change):
    try_changes(federation, copy, tmp_path, monkeypatch, change, COUNT)


@pytest.mark.statistics
@pytest.mark.parametrize("change", CHANGES)
def test_thousands_of_changes_raise_only_declared_errors(federation, copy, tmp_path, monkeypatch, change):
    try_changes(federation, copy, tmp_path, monkeypatch, change, MANY)


def try_changes(federation, copy, directory, monkeypatch, change, count):
    monkeypatch.setattr(record_index, "READINGS", 1)
    chance = random.Random(count)
    for _ in range(count):
        change(copy.copy(), federation, chance, directory)


def receipt_by_its_sizes(encoded):
    """As receipts were read before: a topic is whatever has 32 elements."""
    kind = type_of(encoded)
    status, gas, bloom, logs = rlp.decode(encoded[1:] if kind else encoded)
    if any(len(address) != 20 or any(len(topic) != 32 for topic in topics) for address, topics, _ in logs):
        raise InvalidContent("a malformed log")
    return DecodedReceipt(kind, status == b"\1", int.from_bytes(gas, "big"), bloom, logs)


@pytest.mark.mutants
def test_the_changes_end_readers_that_only_measure_topics(federation, copy, tmp_path, monkeypatch):
    def decode_receipt(encoded):
        try:
            return receipt_by_its_sizes(encoded)
        except (RLPException, TypeError, ValueError) as fault:
            raise InvalidContent(str(fault)) from None

    monkeypatch.setattr(blocks, "decode_receipt", decode_receipt)
    with pytest.raises(TypeError):
        try_changes(federation, copy, tmp_path, monkeypatch, changed_receipt, MANY)
