"""Blocks with transactions of types that only some chains have: what members signed beside them is read and audited.

The blocks are those of a federation on the embedded chain, with others' transactions put in front, and roots that fit.
"""

import random

import pytest
import rlp
from eth_utils import keccak, to_canonical_address

from fedgrove.chain.errors import BadHistory, ChainError
from fedgrove.chain.face.networks import connect, embedded
from fedgrove.chain.network.block_rlp import DEPOSIT, decode_receipt, receipt_rlp, transaction_rlp
from fedgrove.chain.network.blocks import Body
from fedgrove.chain.network.history import LedgerHistory, capture
from fedgrove.chain.network.log_index import LogIndex
from fedgrove.common.errors import InvalidContent
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from tests.adversary import served
from tests.adversary.forged_chain import ForgedChain, bloom, with_logs
from tests.node.federation import Federation

OWN_KIND = 0x64
"""A type of some other chain."""

SOMEBODY = "0x" + "42" * 20
FOREIGN_LOG = [b"\x15" * 20, [b"t" * 32], b"something else"]
REAL_HASH = "312e290cf36df704a2217b015d6455396830b0ce678b860ebfcc30f41403d7b1"
REAL = {
    "type": "0x7e",
    "sourceHash": "0x683079df94aa5b9cf86687d739a60a9b4f0835e520ec4d664e2e415dca17a6df",
    "from": "0xdeaddeaddeaddeaddeaddeaddeaddeaddead0001",
    "to": "0x4200000000000000000000000000000000000015",
    "mint": "0x0",
    "value": "0x0",
    "gas": "0xf4240",
    "input": (
        "0x440a5e200000146b000f79c500000000000000040000000066d052e700000000013ad8a3000000000000000000000000000000000000"
        "000000000000000000003ef1278700000000000000000000000000000000000000000000000000000000000000012fdf87b89884a61e74"
        "b322bbcf60386f543bfae7827725efaaf0ab1de2294a590000000000000000000000006887246668a3b87f54deb3b94ba47a6f63f32985"
    ),
}
"""The first transaction of block 124,665,056 of OP Mainnet, as a node describes it."""


def deposit(to: str = SOMEBODY, data: bytes = b"", seed: int = 0) -> bytes:
    source = random.Random(seed).randbytes(32)
    fields = [source, b"\x11" * 20, to_canonical_address(to), b"", 0, 1_000_000, 0, data]
    return bytes([DEPOSIT]) + rlp.encode(fields)


def receipt(kind: int = DEPOSIT, logs: tuple = (), status: int = 1) -> bytes:
    later = [7, 1] if kind == DEPOSIT else []
    return bytes([kind]) + rlp.encode([status, 50_000, bloom(logs), list(logs), *later])


def in_front(chain: ForgedChain, number: int, raw: bytes, own: bytes) -> None:
    """Put a transaction before the others of a block, with its receipt."""
    body = chain.body(number)
    chain.put(number, Body((raw, *body.transactions), (own, *map(later, body.receipts))))


def later(encoded: bytes) -> bytes:
    """The receipt of a transaction that 50,000 gas were used before."""
    kind, fields = encoded[:1], rlp.decode(encoded[1:])
    fields[1] = int.from_bytes(fields[1], "big") + 50_000
    return kind + rlp.encode(fields)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """One round that has closed."""
    with embedded() as network:
        made = Federation.found(network, tmp_path_factory.mktemp("federation"), clients=3)
        made.register()
        made.run()
        yield made


@pytest.fixture
def chain(federation):
    return ForgedChain(federation.network)


def substance(history: LedgerHistory) -> list[tuple]:
    """Records without the place of their logs, and the gas of their transactions."""
    used = history.transactions
    return [
        (type(each), each.at.block, each.at.author, used[each.at.transaction].gas_used) for each in history.records()
    ]


def read_over_rpc(chain: ForgedChain, federation) -> LedgerHistory:
    with served.served(chain) as url, connect(url) as network:
        return capture(network, federation.deployment)


def test_a_deposit_of_a_real_chain_has_its_hash():
    assert keccak(transaction_rlp(REAL)).hex() == REAL_HASH


def test_deposits_in_every_block_leave_all_records_as_they_are(federation, chain, tmp_path):
    own, last = receipt(logs=(FOREIGN_LOG,)), chain.block_number()
    for number in range(federation.deployment.block, last + 1):
        in_front(chain, number, deposit(seed=number), own)
    for history in (chain.history(federation.deployment), read_over_rpc(chain, federation)):
        history.verify()
        assert substance(history) == substance(federation.history())
    history.save(tmp_path / "ledger.jsonl")
    again = LedgerHistory.load(tmp_path / "ledger.jsonl")
    again.verify()
    assert again.records() == history.records()
    assert len(LogIndex(chain, federation.deployment).records()) == len(history.records())


def test_a_closing_beside_a_deposit_is_audited(federation, chain):
    """No later block names the hash of this one, so that the rest of the training fits."""
    closing = federation.history().records()[-1].at.block
    in_front(chain, closing, deposit(), receipt())
    history = read_over_rpc(chain, federation)
    assert history.blocks[closing - history.first_block].body.transactions[0][0] == DEPOSIT
    verdict = Auditor(chain_facts(history), history.records(), federation.store).run()
    assert verdict.verdict == "verified"


def test_a_deposit_that_names_the_ledger_and_leaves_no_record_is_passed_over(federation, chain):
    ledger = federation.deployment.ledger
    closing = federation.history().records()[-1].at.block
    in_front(chain, closing, deposit(ledger, to_canonical_address(ledger)), receipt(logs=(FOREIGN_LOG,)))
    assert substance(read_over_rpc(chain, federation)) == substance(federation.history())


def test_a_deposit_that_leaves_a_record_is_named(federation, chain):
    """Nobody signed it, so that whoever makes up a chain could have it say anything for anybody."""
    closing = federation.history().records()[-1].at.block
    body = chain.body(closing)
    logs = decode_receipt(body.receipts[0]).logs
    chain.put(closing, Body((deposit(federation.deployment.ledger),), (with_logs(receipt(), logs),)))
    with pytest.raises(BadHistory, match=rf"Block {closing} .* transaction of type 0x7e, which no member"):
        chain.history(federation.deployment).records()
    with pytest.raises(BadHistory, match="0x7e"):
        LogIndex(chain, federation.deployment).records()


def test_types_that_nobody_here_knows_are_taken_as_the_node_has_them(federation, chain):
    closing = federation.history().records()[-1].at.block
    in_front(chain, closing, bytes([OWN_KIND]) + b"in an encoding of its own", receipt(OWN_KIND))
    assert substance(read_over_rpc(chain, federation)) == substance(federation.history())


def test_they_may_be_as_large_as_calldata_may(federation, chain):
    """Else whoever fills a block with one, where a record lies, stops all readers."""
    closing = federation.history().records()[-1].at.block
    in_front(chain, closing, bytes([OWN_KIND]) + bytes((1 << 20) + 1), receipt(OWN_KIND))
    assert substance(read_over_rpc(chain, federation)) == substance(federation.history())


def test_a_node_that_does_not_give_them_is_named(federation, chain, monkeypatch):
    closing = federation.history().records()[-1].at.block
    in_front(chain, closing, bytes([OWN_KIND]) + b"in an encoding of its own", receipt(OWN_KIND))
    monkeypatch.delitem(served.METHODS, "eth_getRawTransactionByHash")
    with pytest.raises(ChainError, match=r"type 0x64 and refuses eth_getRawTransactionByHash.*; use another node"):
        read_over_rpc(chain, federation)


def test_another_transaction_than_the_chains_is_refused(federation, chain, monkeypatch):
    closing = federation.history().records()[-1].at.block
    in_front(chain, closing, bytes([OWN_KIND]) + b"in an encoding of its own", receipt(OWN_KIND))
    monkeypatch.setitem(served.METHODS, "eth_getRawTransactionByHash", lambda network, name: "0x64aa")
    with pytest.raises(BadHistory, match="transactions do not hash"):
        read_over_rpc(chain, federation)


def test_receipts_of_deposits_before_canyon_have_four_fields():
    fields = {"type": "0x7e", "status": "0x1", "cumulativeGasUsed": "0xc350", "logsBloom": "0x" + "00" * 256}
    old = receipt_rlp(fields | {"logs": [], "depositNonce": "0x7"})
    assert len(rlp.decode(old[1:])) == 4
    assert receipt_rlp(fields | {"logs": [], "depositNonce": "0x7", "depositReceiptVersion": "0x1"}) == receipt()


def test_receipts_of_signed_transactions_have_no_further_fields():
    with pytest.raises(InvalidContent, match="too many fields"):
        decode_receipt(b"\2" + receipt()[1:])
