"""What transactions offer for gas: of a history of fees, and in the end on a real node, dear and cheap."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.networks import connect, embedded
from fedgrove.chain.network.access import GWEI
from fedgrove.chain.network.fees import FeeHistory
from fedgrove.chain.network.rpc_reading import fees_of
from fedgrove.chain.network.transactions import FEE_BLOCKS, Sender
from fedgrove.common.errors import InvalidContent
from tests.chain.nodes import anvil_or_skip

FAR = "0x" + "11" * 20
CHEAP = GWEI // 50


@pytest.mark.parametrize(
    ("history", "tip"),
    [
        (FeeHistory(30 * GWEI, (0.5, 0.4), (GWEI, 2 * GWEI), 5), GWEI),
        (FeeHistory(CHEAP, (0.5, 0.4), (GWEI, 2 * GWEI), GWEI), CHEAP // 10),
        (FeeHistory(CHEAP, (1.0, 0.99), (GWEI, 3 * GWEI), 5), GWEI),
        (FeeHistory(CHEAP, (0.0, 0.5), (0, 7), GWEI), 7),
        (FeeHistory(CHEAP, (0.0, 0.0), (0, 0), 9), 9),
        (FeeHistory(CHEAP), CHEAP // 10),
        (FeeHistory(0, (0.5,), (0,), 0), 1),
    ],
    ids=["room", "room and dear", "full", "empty blocks tell nothing", "suggested", "base alone", "never zero"],
)
def test_a_tip_follows_recent_blocks_and_is_small_while_they_have_room(history, tip):
    assert history.tip == tip


def test_a_transaction_that_was_left_out_offers_what_others_do():
    assert FeeHistory(CHEAP, (0.5,), (GWEI,), 0).urgent_tip == GWEI
    assert FeeHistory(CHEAP, (0.0,), (0,), 2 * GWEI).urgent_tip == 2 * GWEI


GOOD = {"baseFeePerGas": ["0x1", "0x2"], "gasUsedRatio": [0.5], "reward": [["0x7"]]}


@pytest.mark.parametrize(
    "change",
    [
        {"gasUsedRatio": [2.0]},
        {"gasUsedRatio": [True]},
        {"gasUsedRatio": [0.5, 0.5]},
        {"baseFeePerGas": []},
        {"reward": [["-0x7"]]},
        {"baseFeePerGas": ["0x1"] * 1_000_001, "gasUsedRatio": [0.5] * 1_000_000, "reward": [["0x7"]] * 1_000_000},
    ],
)
def test_a_history_that_cannot_be_is_refused(change):
    def answered(history):
        return SimpleNamespace(requests=lambda calls: [history, "0x5"])

    assert fees_of(answered(GOOD)) == FeeHistory(2, (0.5,), (7,), 5)
    with pytest.raises(InvalidContent):
        fees_of(answered({**GOOD, **change}))


@pytest.fixture(scope="module")
def node():
    with anvil_or_skip() as network:
        yield network


def payer(node, base):
    """A sender with funds, on a chain whose base fee is now this."""
    keys = Keys.generate()
    node.fund(keys.address, 1)
    node.request("anvil_setNextBlockBaseFeePerGas", hex(base))
    node.mine()
    return Sender(node, keys.account)


def paid_and_asked(node, sender):
    """What a unit of gas of a transaction cost, and the base fee of its block."""
    mined = sender.transact(FAR, b"", 21_000, value=1)
    receipt = node.request("eth_getTransactionReceipt", "0x" + mined.transaction.hex())
    block = node.request("eth_getBlockByNumber", hex(mined.block), False)
    return int(receipt["effectiveGasPrice"], 16), int(block["baseFeePerGas"], 16)


@pytest.mark.parametrize("base", [CHEAP, GWEI, 30 * GWEI], ids=["0.02 gwei", "1 gwei", "30 gwei"])
def test_a_member_pays_at_most_a_fifth_more_than_the_chain_asks(node, base):
    sender = payer(node, base)
    for _ in range(5):
        paid, asked = paid_and_asked(node, sender)
        assert asked < paid <= 1.2 * asked


@pytest.mark.parametrize("blocks", range(6))
def test_a_member_pays_no_more_where_others_make_blocks_within_moments_and_the_base_fee_falls(node, blocks):
    sender = payer(node, 30 * GWEI)
    for _ in range(5):
        paid, asked = paid_and_asked(node, sender)
        assert asked < paid <= 1.2 * asked
        node.mine(blocks)


def test_fees_are_read_again_after_a_few_blocks_and_not_before(node, monkeypatch):
    sender, read, fees = payer(node, GWEI), [], node.fees
    monkeypatch.setattr(node, "fees", lambda: read.append(node.block_number()) or fees())
    for _ in range(2 * FEE_BLOCKS + 2):
        sender.transact(FAR, b"", 21_000, value=1)
    assert len(read) == 2


def test_a_chain_without_a_history_of_fees_has_its_base_fee(node, monkeypatch):
    with connect(node.url) as other, embedded() as own:
        monkeypatch.setattr("fedgrove.chain.network.rpc.fees_of", lambda endpoint: endpoint.request("eth_noSuchMethod"))
        assert other.fees() == FeeHistory(other.base_fee())
        assert own.fees() == FeeHistory(own.base_fee())
