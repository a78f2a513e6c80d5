"""A captured history: complete, verifiable from the file alone, and every tampering named with its block."""

import json
import time
from dataclasses import replace

import pytest
import rlp
from eth_bloom import BloomFilter
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.chain.errors import BadHistory
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.network.block_rlp import bloom_of
from fedgrove.chain.network.blocks import Body
from fedgrove.chain.network.history import Block, LedgerHistory, capture
from tests.chain.federations import found


def run_round(federation):
    number = federation.sealed()
    for index, client in enumerate(federation.clients):
        client.share(number, bytes([index + 1]) * 32)
    federation.network.advance_to(federation.coordinator.round(number).share_end)
    for client in federation.clients:
        client.commit(number, b"d" * 32, b"h" * 32)
    federation.network.advance_to(federation.coordinator.round(number).commit_end)
    for client in federation.clients:
        client.release(number, b"r" * 32)
    return federation.coordinator.close(number, b"\x09" * 32, b"M" * 32)


@pytest.fixture(scope="module")
def captured():
    with embedded() as network:
        federation = found(network)
        receipt = run_round(federation)
        history = capture(network, federation.deployment)
        yield history, federation, receipt


@pytest.fixture
def history(captured):
    return captured[0]


def edited(history, number, **changes):
    blocks = list(history.blocks)
    blocks[number - history.first_block] = replace(blocks[number - history.first_block], **changes)
    return replace(history, blocks=tuple(blocks))


def bad(history):
    with pytest.raises(BadHistory) as fault:
        history.verify()
    return fault.value


def body_of(history, number):
    return history.blocks[number - history.first_block].body


def test_it_holds_every_record_of_the_chain(captured):
    history, federation, receipt = captured
    history.verify()
    assert history.records() == federation.coordinator.records()
    assert history.block_hash(history.head_block) == federation.network.block_hash(federation.network.block_number())
    facts = history.transactions[receipt.transaction]
    assert (facts.sender, facts.gas_used) == (federation.founder.address, receipt.gas_used)
    assert facts.fee % facts.gas_used == 0 and facts.fee // facts.gas_used > 0
    assert {record.at.transaction for record in history.records()} == set(history.transactions)


def test_it_survives_the_file(history, tmp_path):
    history.save(tmp_path / "ledger.jsonl")
    again = LedgerHistory.load(tmp_path / "ledger.jsonl")
    assert again == history
    again.verify()
    again.save(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "ledger.jsonl").read_bytes()


def test_an_altered_log_is_named(history):
    number = history.records()[-1].at.block
    body = body_of(history, number)
    receipt = body.receipts[0]
    altered = Body(body.transactions, (receipt[:-1] + bytes([receipt[-1] ^ 1]),))
    assert bad(edited(history, number, body=altered)).block == number


def test_an_altered_transaction_is_named(history):
    number = history.records()[-1].at.block
    body = body_of(history, number)
    raw = body.transactions[0]
    fault = bad(edited(history, number, body=Body((raw[:-1] + bytes([raw[-1] ^ 1]),), body.receipts)))
    assert (fault.block, "transactions" in fault.what) == (number, True)


@pytest.mark.parametrize("field", range(15))
def test_an_altered_header_field_is_named(history, field):
    number = history.first_block + 5
    fields = rlp.decode(history.blocks[5].header)
    fields[field] = bytes(fields[field][:-1]) + bytes([(fields[field] or b"\0")[-1] ^ 1])
    assert bad(edited(history, number, header=rlp.encode(fields))).block == number


def test_an_altered_header_with_its_hash_is_found_by_the_next(history):
    from eth_utils import keccak

    number = history.first_block + 5
    fields = rlp.decode(history.blocks[5].header)
    fields[3] = b"\x07" * 32
    header = rlp.encode(fields)
    assert bad(edited(history, number, header=header, hash=keccak(header))).block == number + 1


def test_a_dropped_block_is_named(history):
    blocks = history.blocks[:7] + history.blocks[8:]
    assert bad(replace(history, blocks=blocks)).block == history.first_block + 7


def test_receipts_left_out_are_named(history):
    number = history.records()[3].at.block
    fault = bad(edited(history, number, body=None))
    assert (fault.block, "missing" in fault.what) == (number, True)


def test_receipts_in_another_order_or_number_are_named(history):
    first, last = (history.records()[index].at.block for index in (0, -1))
    one, other = body_of(history, first), body_of(history, last)
    assert bad(edited(history, first, body=Body(one.transactions, other.receipts))).block == first
    assert bad(edited(history, first, body=Body(one.transactions, one.receipts * 2))).block == first


def test_a_body_that_is_no_rlp_is_named(history):
    number = history.records()[0].at.block
    for receipts in ((b"",), (b"\x02\xc0",), (b"\x02\xff\xff",)):
        broken = edited(history, number, body=Body((b"\x02",), receipts))
        with pytest.raises(BadHistory):
            broken.records()
        assert bad(broken).block == number


def test_a_header_that_is_no_rlp_is_named(history):
    for header in (b"", b"\xc0", b"\xff" * 40, b"\0" * 5000):
        assert bad(edited(history, history.first_block, header=header)).block == history.first_block


def test_lines_of_another_form_are_named(history, tmp_path):
    path = tmp_path / "ledger.jsonl"
    history.save(path)
    lines = path.read_text().splitlines(keepends=True)
    head = json.loads(lines[0])
    wrong_count = json.dumps(head | {"blocks": 10**9}, sort_keys=True, separators=(",", ":")) + "\n"
    foreign = json.dumps(head | {"format": "x"}, sort_keys=True, separators=(",", ":")) + "\n"
    cases = {
        "truncated": (lines[:-1], history.head_block),
        "cut": ([*lines[:3], lines[3][:20]], history.first_block + 2),
        "spaces": ([*lines[:3], " " + lines[3], *lines[4:]], history.first_block + 2),
        "more": ([*lines, "{}\n"], None),
        "list": (["[]\n"], None),
        "deep": (["[" * 100_000], None),
        "empty": ([], None),
        "count": ([wrong_count, *lines[1:]], None),
        "format": ([foreign, *lines[1:]], None),
    }
    for name, (content, block) in cases.items():
        path.write_text("".join(content))
        with pytest.raises(BadHistory) as fault:
            LedgerHistory.load(path)
        assert fault.value.block == block, name


def test_a_block_outside_is_refused(history):
    with pytest.raises(BadHistory):
        history.block_hash(history.head_block + 1)


def test_a_thousand_blocks_are_captured_in_seconds(captured):
    _, federation, _ = captured
    federation.network.mine(1000)
    started = time.monotonic()
    history = capture(federation.network, federation.deployment)
    history.verify()
    assert len(history.blocks) > 1000
    assert time.monotonic() - started < 20
    assert isinstance(history.blocks[0], Block)


@given(
    st.lists(st.tuples(st.binary(min_size=20, max_size=20), st.lists(st.binary(min_size=32, max_size=32), max_size=4)))
)
def test_a_bloom_filter_is_that_of_another_library(logs):
    expected = BloomFilter.from_iterable(item for address, topics in logs for item in (address, *topics))
    assert bloom_of([(address, topics, b"") for address, topics in logs]) == int(expected).to_bytes(256, "big")
