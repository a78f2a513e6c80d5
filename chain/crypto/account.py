"""An Ethereum account's key: its address, and what it signs (secp256k1 with RFC 6979, as ``eth_keys`` has it)."""

from dataclasses import dataclass
from functools import cached_property

from eth_keys import keys
from eth_keys.exceptions import BadSignature, ValidationError

from fedgrove.common.errors import InvalidContent

MAX_S = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
"""Half of secp256k1's order: chains refuse signatures with a larger s (EIP-2)."""

SIGNATURE_BYTES = 65
_FIRST_PARITY = 27


@dataclass(frozen=True, repr=False)
class Account:
    """A secret key, 32 bytes big-endian; ``repr`` shows only the address."""

    key: bytes

    @cached_property
    def address(self) -> str:
        """The checksummed address."""
        return keys.PrivateKey(self.key).public_key.to_checksum_address()

    def sign(self, digest: bytes) -> tuple[int, int, int]:
        """Sign a digest of 32 bytes: y's parity (0 or 1), r, and s in the lower half; always the same for a digest."""
        return keys.PrivateKey(self.key).sign_msg_hash(digest).vrs

    def sign_bytes(self, digest: bytes) -> bytes:
        """As ``sign``, in the form that contracts take: r ‖ s ‖ v, 65 bytes, with v 27 or 28."""
        parity, r, s = self.sign(digest)
        return r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([_FIRST_PARITY + parity])

    def __repr__(self) -> str:
        return f"Account({self.address})"


def signer_of(digest: bytes, parity: int, r: int, s: int) -> str:
    """The checksummed address whose key signed a digest; InvalidContent where no key did."""
    try:
        return keys.Signature(vrs=(parity, r, s)).recover_public_key_from_msg_hash(digest).to_checksum_address()
    except (BadSignature, ValidationError) as fault:
        raise InvalidContent(f"not a signature ({type(fault).__name__})") from None


def signer_of_bytes(digest: bytes, signature: bytes) -> str:
    """As ``signer_of``, for r ‖ s ‖ v; InvalidContent also for another length, and for v other than 27 or 28."""
    if len(signature) != SIGNATURE_BYTES or signature[64] not in (_FIRST_PARITY, _FIRST_PARITY + 1):
        raise InvalidContent("not a signature of 65 bytes")
    r, s = (int.from_bytes(signature[at : at + 32], "big") for at in (0, 32))
    return signer_of(digest, signature[64] - _FIRST_PARITY, r, s)
