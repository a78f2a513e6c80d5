"""An endpoint that says that others pay dear tips, so that a member's ether goes to a maker of blocks.

Who attacks: the endpoint that a member asks, with a friend who makes blocks. A base fee cannot be made up, since the
chain takes only its own; a tip is paid as offered. What stops it: ``network.max_tip_gwei``.
"""

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.networks import anvil
from fedgrove.chain.network.access import GWEI
from fedgrove.chain.network.fees import FeeHistory
from fedgrove.chain.network.transactions import Sender

CLAIMED = 400 * GWEI


@pytest.fixture
def lying(monkeypatch):
    with anvil() as network:
        monkeypatch.setattr(network, "fees", lambda: FeeHistory(network.base_fee(), (1.0,), (CLAIMED,), CLAIMED))
        yield network


def tip_paid(network) -> int:
    """What a member pays beyond the base fee for a unit of gas."""
    keys = Keys.generate()
    network.fund(keys.address, 1)
    mined = Sender(network, keys.account).transact("0x" + "11" * 20, b"", 21_000, value=1)
    receipt = network.request("eth_getTransactionReceipt", "0x" + mined.transaction.hex())
    base = network.request("eth_getBlockByNumber", hex(mined.block), False)["baseFeePerGas"]
    return int(receipt["effectiveGasPrice"], 16) - int(base, 16)


def test_a_member_pays_no_more_than_its_cap(lying):
    assert tip_paid(lying) == lying.max_tip == 3 * GWEI


@pytest.mark.mutants
def test_without_the_cap_it_pays_what_the_endpoint_says(lying, monkeypatch):
    monkeypatch.setattr(lying, "max_tip", lying.max_fee)
    assert tip_paid(lying) == CLAIMED
