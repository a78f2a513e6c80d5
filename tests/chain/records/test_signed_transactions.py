"""Who signed a transaction for which chain, and what a unit of gas cost, follow from its own bytes."""

import pytest
from eth_account import Account

from fedgrove.chain.records.signed_transactions import decode_transaction

ACCOUNT = Account.from_key("0x" + "11" * 32)
COMMON = {"nonce": 0, "gas": 21_000, "to": ACCOUNT.address, "value": 0, "data": "0x"}
ONE_PRICE = {"gasPrice": 30}
TWO_PRICES = {"maxFeePerGas": 30, "maxPriorityFeePerGas": 2, "chainId": 1}


@pytest.mark.parametrize(
    ("fields", "base_fee", "price"),
    [
        (ONE_PRICE, 7, 30),
        (ONE_PRICE | {"chainId": 1}, 0, 30),
        (ONE_PRICE | {"chainId": 1, "type": 1, "accessList": []}, 7, 30),
        (TWO_PRICES, 7, 9),
        (TWO_PRICES, 29, 30),
        (TWO_PRICES, 0, 2),
    ],
)
def test_gas_costs_the_base_fee_and_the_tip_and_no_more_than_was_offered(fields, base_fee, price):
    raw = bytes(ACCOUNT.sign_transaction(COMMON | fields).raw_transaction)
    assert decode_transaction(raw).price(base_fee) == price


@pytest.mark.parametrize(
    ("fields", "chain_id"),
    [
        (ONE_PRICE, None),
        (ONE_PRICE | {"chainId": 1}, 1),
        (ONE_PRICE | {"chainId": 31337}, 31337),
        (ONE_PRICE | {"chainId": 5, "type": 1, "accessList": []}, 5),
        (TWO_PRICES, 1),
    ],
)
@pytest.mark.parametrize("nonce", [0, 1, 300])
def test_the_author_is_who_signed_every_field(fields, chain_id, nonce):
    offered = COMMON | fields | {"nonce": nonce, "data": "0xabcd"}
    found = decode_transaction(bytes(ACCOUNT.sign_transaction(offered).raw_transaction))
    assert (found.sender, found.chain_id, found.nonce) == (ACCOUNT.address, chain_id, nonce)
    assert (found.to, found.data) == (ACCOUNT.address, b"\xab\xcd")
