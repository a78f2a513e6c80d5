"""Messages that an account signs outside transactions (EIP-191, version 0x45), and whose signature one bears."""

from eth_utils import keccak

from fedgrove.chain.crypto.account import SIGNATURE_BYTES, Account, signer_of_bytes
from fedgrove.common.errors import InvalidContent

__all__ = ["SIGNATURE_BYTES", "is_signed_by", "sign_message"]


def sign_message(account: Account, message: bytes) -> bytes:
    """Sign: r ‖ s ‖ v, 65 bytes, always the same for a message (RFC 6979). No transaction has such a signature."""
    return account.sign_bytes(_digest(message))


def is_signed_by(address: str, message: bytes, signature: bytes) -> bool:
    """Whether the holder of an account signed a message."""
    try:
        return signer_of_bytes(_digest(message), signature).lower() == address.lower()
    except InvalidContent:
        return False


def _digest(message: bytes) -> bytes:
    return keccak(b"\x19Ethereum Signed Message:\n%d" % len(message) + message)
