"""Signatures of messages: an independent library finds them right, and nothing else passes for one."""

import ecdsa
from eth_account import Account as EthAccount
from eth_account.messages import encode_defunct
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.crypto.signatures import SIGNATURE_BYTES, is_signed_by, sign_message

ALICE, BOB = (Account(bytes([byte]) * 32) for byte in (1, 2))
MESSAGES = st.binary(max_size=300)


@given(MESSAGES)
def test_another_library_verifies_them_by_the_text_of_eip_191(message):
    signature = sign_message(ALICE, message)
    hashed = keccak(b"\x19Ethereum Signed Message:\n" + str(len(message)).encode() + message)
    key = ecdsa.SigningKey.from_string(bytes(ALICE.key), ecdsa.SECP256k1).get_verifying_key()
    assert key.verify_digest(signature[:64], hashed) and len(signature) == SIGNATURE_BYTES
    assert signature == sign_message(ALICE, message)
    assert signature == EthAccount.from_key(ALICE.key).sign_message(encode_defunct(message)).signature


@given(MESSAGES, MESSAGES)
def test_they_are_of_one_account_and_one_message(message, other):
    signature = sign_message(ALICE, message)
    assert is_signed_by(ALICE.address, message, signature)
    assert is_signed_by(ALICE.address.lower(), message, signature)
    assert not is_signed_by(BOB.address, message, signature)
    assert is_signed_by(ALICE.address, other, signature) == (message == other)


@given(st.binary(max_size=70) | st.binary(min_size=SIGNATURE_BYTES, max_size=SIGNATURE_BYTES))
def test_other_bytes_are_no_signature(data):
    assert not is_signed_by(ALICE.address, b"message", data)


def test_values_out_of_range_are_no_signature():
    r, s = (sign_message(ALICE, b"message")[place : place + 32] for place in (0, 32))
    for data in (bytes(32) + s, r + bytes(32), b"\xff" * 32 + s, r + b"\xff" * 32, bytes(64)):
        assert not any(is_signed_by(ALICE.address, b"message", data + bytes([v])) for v in (0, 1, 27, 28, 29, 255))
