"""An account signs what another library signs with its key, to the byte, and shows its key to nobody."""

from contextlib import suppress
from types import SimpleNamespace

import pytest
from eth_account import Account as EthAccount
from eth_account.messages import encode_typed_data
from eth_keys.exceptions import ValidationError
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.chain.crypto.account import MAX_S, Account, signer_of, signer_of_bytes
from fedgrove.chain.network.transactions import Content, Offer, signed
from fedgrove.chain.records import signed_draws
from fedgrove.chain.records.signed_draws import SignedDraw, is_signed, signed_by
from fedgrove.common.errors import InvalidContent

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
KEYS = st.integers(1, ORDER - 1).map(lambda number: number.to_bytes(32, "big"))
ADDRESSES = st.binary(min_size=20, max_size=20).map(lambda raw: EthAccount.from_key(keccak(raw)).address)
WORDS = st.binary(min_size=32, max_size=32)
NUMBERS = st.integers(0, (1 << 64) - 1)


@given(KEYS)
def test_the_address_is_that_of_another_library(key):
    assert Account(key).address == EthAccount.from_key(key).address


@given(KEYS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.none() | ADDRESSES, st.binary(max_size=300))
def test_a_transaction_has_the_bytes_of_another_library(key, chain_id, nonce, fee, tip, gas, value, to, data):
    fields = {"type": 2, "chainId": chain_id, "nonce": nonce, "gas": gas, "value": value, "data": data}
    fields |= {"maxFeePerGas": fee, "maxPriorityFeePerGas": tip} | ({} if to is None else {"to": to})
    made = signed(Account(key), chain_id, nonce, Offer(fee, tip), Content(to, data, gas, value))
    assert made == EthAccount.from_key(key).sign_transaction(fields).raw_transaction


@given(KEYS, NUMBERS, NUMBERS, ADDRESSES, st.tuples(*[NUMBERS] * 2), WORDS, st.integers(0, 2**32 - 1), st.binary())
def test_a_draw_has_the_signature_of_another_library(key, chain_id, number, ledger, point, word, samples, message):
    account = Account(key)
    deployment = SimpleNamespace(chain_id=chain_id, ledger=ledger)  # all that a signature names of it
    bare = SignedDraw(account.address, *point, word, word[::-1], samples, message, b"")
    domain = {"name": "fedgrove", "version": "1", "chainId": chain_id, "verifyingContract": ledger}
    types = {"Draw": [{"name": name, "type": kind} for name, kind in signed_draws._DRAW]}
    values = dict(zip((name for name, _ in signed_draws._DRAW), (number, *bare.as_tuple()[:-1]), strict=True))
    expected = EthAccount.from_key(key).sign_message(encode_typed_data(domain, types, values)).signature
    made = signed_by(account, deployment, number, bare)
    assert made.signature == expected and is_signed(made, deployment, number)
    assert not is_signed(made, deployment, number ^ 1)


@given(KEYS, WORDS)
def test_whoever_signed_is_found_and_nobody_else(key, digest):
    account = Account(key)
    parity, r, s = account.sign(digest)
    assert s <= MAX_S
    assert signer_of(digest, parity, r, s) == account.address == signer_of_bytes(digest, account.sign_bytes(digest))
    assert signer_of(digest, 1 - parity, r, ORDER - s) == account.address  # as chains without EIP-2 would have it
    with suppress(ValueError):  # where no key has this signature
        assert signer_of(digest, 1 - parity, r, s) != account.address


@pytest.mark.parametrize("values", [(0, 0, 1), (0, 1, 0), (0, ORDER, 1), (0, 1, ORDER), (2, 1, 1), (0, 1 << 256, 1)])
def test_values_out_of_range_are_no_signature(values):
    with pytest.raises(InvalidContent, match="not a signature"):
        signer_of(bytes(32), *values)


@pytest.mark.parametrize("length", [0, 64, 66])
def test_another_length_is_no_signature(length):
    with pytest.raises(InvalidContent, match="not a signature"):
        signer_of_bytes(bytes(32), bytes([27]) * length)


def test_it_does_not_show_its_key():
    account = Account(b"\x07" * 32)
    assert account.key.hex() not in repr(account) and account.address in repr(account)
    with pytest.raises(ValidationError) as caught:
        Account(b"\x07" * 31).sign(bytes(32))
    assert "0707" not in str(caught.value) and "x07" not in str(caught.value)
