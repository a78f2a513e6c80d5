"""What a unit of gas cost follows from a transaction's own fields and the base fee of its block."""

import pytest
from eth_account import Account
from fedgrove.chain.signed_transactions import decode_transaction

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
