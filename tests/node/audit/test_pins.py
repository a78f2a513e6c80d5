"""A history is held against what was published elsewhere, and every pin that does not fit is named."""

import json

import pytest
from eth_utils import keccak, to_checksum_address
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.records import Position, Registered
from fedgrove.chain.records.deployment import Deployment, LedgerSettings, Terms
from fedgrove.common.wire import Malformed
from fedgrove.node.audit.pins import HeadStatement, Pins
from fedgrove.node.protocol.bad_record import RuleBroken
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.rounds import Rounds

ALICE, STRANGER = (Account(bytes([byte]) * 32) for byte in (1, 2))
CHAIN, FIRST, HEAD = 7, 10, 20
LEDGER, REGISTRY = (to_checksum_address("0x" + 20 * each) for each in ("5f", "1b"))
DEPLOYMENT = Deployment(
    CHAIN, REGISTRY, LEDGER, FIRST, *3 * [ALICE.address], "open", (), 1, LedgerSettings(), Terms("ab" * 32, "cd" * 32)
)


def block_hash(number: int) -> bytes:
    return keccak(number.to_bytes(8, "big"))


FACTS = ChainFacts(DEPLOYMENT, HEAD, block_hash, block_hash)
MEMBERS = Rounds()
MEMBERS.add(Registered(Position(11, bytes(32), 0), ALICE.address, 1, 1, 2, bytes(32), 12, bytes(81)))


def stated(account=ALICE, chain_id=CHAIN, ledger=LEDGER, block=15, fork=None) -> HeadStatement:
    return HeadStatement.sign(
        account, chain_id=chain_id, ledger=ledger, block=block, block_hash=(fork or block_hash(block)).hex()
    )


def check(**pins) -> tuple[str, ...]:
    return Pins(**pins).check(FACTS, HEAD, MEMBERS)


def test_nothing_given_is_nothing_held_against():
    assert check() == ()


@pytest.mark.parametrize("block", range(FIRST, HEAD + 1))
def test_any_block_of_the_history_may_be_the_published_one(block):
    assert check(heads=((block, block_hash(block)),)) == (f"the published hash of block {block}",)


@pytest.mark.parametrize(
    ("pins", "field", "reason"),
    [
        ({"heads": ((15, bytes(32)),)}, "pinned head", "block 15 has a different hash"),
        ({"heads": ((15, block_hash(15)), (16, bytes(32)))}, "pinned head", "block 16 has a different hash"),
        ({"heads": ((HEAD + 1, block_hash(HEAD + 1)),)}, "pinned head", "blocks 10 to 20"),
        ({"heads": ((FIRST - 1, block_hash(FIRST - 1)),)}, "pinned head", "blocks 10 to 20"),
        ({"ledger": "0x" + "11" * 20}, "pinned ledger", "not of 0x1111"),
        ({"chain_id": 8}, "pinned chain", "not of 8"),
        ({"statements": (stated(STRANGER),)}, "pinned head", "is not a member"),
        ({"statements": (stated(chain_id=8),)}, "pinned head", "another federation"),
        ({"statements": (stated(ledger="0x" + "11" * 20),)}, "pinned head", "another federation"),
        ({"statements": (stated(fork=bytes(32)),)}, "pinned head", "a different hash"),
        ({"statements": (stated(block=HEAD + 1),)}, "pinned head", "not in the history"),
    ],
)
def test_a_pin_that_does_not_fit_is_named(pins, field, reason):
    with pytest.raises(RuleBroken) as broken:
        check(**pins)
    assert broken.value.record.field == field and reason in broken.value.record.reason


def test_what_fits_is_said_each_in_a_clause():
    given_pins = {"ledger": LEDGER, "chain_id": CHAIN, "heads": ((12, block_hash(12)),), "statements": (stated(),)}
    assert check(**given_pins) == (
        f"ledger {LEDGER}",
        f"chain {CHAIN}",
        "the published hash of block 12",
        f"block 15 as client 1 ({ALICE.address}) signed it",
    )


# --- statements -------------------------------------------------------------------------------------------------------


def test_a_statement_is_read_as_it_was_written():
    statement = stated()
    assert HeadStatement.from_bytes(statement.to_bytes()) == statement
    assert stated() == statement


@pytest.mark.parametrize(
    "change",
    [
        {"chain_id": 8},
        {"ledger": "0x" + "11" * 20},
        {"block": 16},
        {"block_hash": "00" * 32},
        {"account": STRANGER.address},
        {"account": ALICE.address.lower()},
        {"signature": "00" * 65},
    ],
)
def test_a_statement_that_was_changed_is_none(change):
    with pytest.raises(Malformed, match="signature"):
        HeadStatement.from_bytes(stated().replace(**change).to_bytes())


def table() -> dict:
    return json.loads(stated().to_bytes())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null\n",
        b"[]\n",
        b"{}\n",
        b"[" * 5000,
        b"\xff",
        b" " * (HeadStatement.max_bytes + 1),
        stated().to_bytes().rstrip(b"\n"),
        stated().to_bytes() + b"\n",
        json.dumps(table()).encode() + b"\n",
        *(
            json.dumps(table() | each, sort_keys=True, separators=(",", ":")).encode() + b"\n"
            for each in (
                {"format": "fedgrove-head-2"},
                {"more": 1},
                {"block": "15"},
                {"block": True},
                {"chain_id": 7.0},
                {"account": None},
                {"block_hash": "zz" * 32},
                {"block_hash": "00"},
                {"signature": "00" * 64},
                {"signature": table()["signature"].upper()},
                {"block_hash": table()["block_hash"].upper()},
            )
        ),
        *(json.dumps({key: value for key, value in table().items() if key != missing}).encode() for missing in table()),
    ],
)
def test_other_bytes_are_no_statement(data):
    with pytest.raises(Malformed):
        HeadStatement.from_bytes(data)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_byte_that_changed_makes_it_none(place, difference):
    data = bytearray(stated().to_bytes())
    data[place % len(data)] ^= difference
    with pytest.raises(Malformed):
        HeadStatement.from_bytes(bytes(data))


def test_a_statement_is_one_line_of_json_with_sorted_names():
    data = stated().to_bytes()
    names = list(json.loads(data))
    assert names == sorted(names) and data.count(b"\n") == 1 and b" " not in data


def test_a_statement_is_of_four_kibibytes_at_most():
    room = 4096 - len(stated(ledger="").to_bytes())
    longest = stated(ledger="5" * room)
    assert HeadStatement.from_bytes(longest.to_bytes()) == longest
    with pytest.raises(Malformed):
        HeadStatement.from_bytes(stated(ledger="5" * (room + 1)).to_bytes())
