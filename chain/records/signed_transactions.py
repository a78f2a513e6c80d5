"""A transaction as its author signed it: who, on which chain, to whom, with which calldata."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import rlp
from eth_utils import keccak, to_checksum_address
from rlp.exceptions import RLPException

from fedgrove.chain.crypto.account import MAX_S, signer_of
from fedgrove.chain.records.rlp_bytes import rlp_bytes
from fedgrove.common.errors import InvalidContent

_UNPROTECTED = (27, 28)
_LEGACY_FIELDS = 9
_TYPED_FIELDS = {1: 11, 2: 12, 3: 14, 4: 13}
"""Fields of each EIP-2718 type: access list, dynamic fee, blob, set code; the last three are the signature."""


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """The signed fields, as far as records need them.

    Attributes
    ----------
    sender : str
        Checksummed address, recovered from the signature.
    chain_id : int or None
        None for a legacy transaction that is valid on any chain.
    nonce : int
    to : str or None
        Checksummed address; None creates a contract.
    data : bytes
        The calldata.
    max_fee, max_tip : int
        Most that a unit of gas may cost in all, and on top of the base fee, in wei; one and the same price where the
        type knows one only.
    """

    sender: str
    chain_id: int | None
    nonce: int
    to: str | None
    data: bytes = field(repr=False)
    max_fee: int
    max_tip: int

    def price(self, base_fee: int) -> int:
        """What a unit of gas cost, in wei, in a block with this base fee."""
        return min(self.max_fee, base_fee + self.max_tip)


@lru_cache(maxsize=64)  # roles in one process read the same blocks, and most of it is finding out who signed
def decode_transaction(raw: bytes) -> SignedTransaction:
    """Read the EIP-2718 encoding of a signed transaction of types 0 to 4; InvalidContent for anything else.

    Fields that records do not need, as access lists and the authorizations of type 4, are only hashed: a chain takes
    values in them that libraries refuse, and no member may make a record that others cannot read.
    """
    try:
        kind = raw[0] if raw and raw[0] < 0x80 else 0
        fields = cast(Any, rlp).decode(raw[1:] if kind else raw)
        return _typed(kind, fields) if kind else _legacy(fields)
    except (RLPException, TypeError, RecursionError) as fault:
        raise InvalidContent(f"not a signed transaction ({type(fault).__name__})") from None


def _legacy(fields: list[Any]) -> SignedTransaction:
    if len(fields) != _LEGACY_FIELDS:
        raise InvalidContent("the wrong number of fields")
    nonce, price, _, to, _, data = fields[:6]
    content = (nonce, to, data, _amount(price), _amount(price))
    v, r, s = map(_number, fields[6:])
    if v in _UNPROTECTED:
        return _signed(rlp_bytes(fields[:6]), (v - 27, r, s), None, content)
    chain_id, parity = divmod(v - 35, 2)
    if chain_id < 0:
        raise InvalidContent("an invalid recovery number")
    return _signed(rlp_bytes([*fields[:6], chain_id, 0, 0]), (parity, r, s), chain_id, content)


def _typed(kind: int, fields: list[Any]) -> SignedTransaction:
    if len(fields) != _TYPED_FIELDS.get(kind):
        raise InvalidContent(f"not a transaction of type {kind}")
    at = 3 if kind == 1 else 4  # of the limit of gas: one price before it, or two
    content = (fields[1], fields[at + 1], fields[at + 3], _amount(fields[at - 1]), _amount(fields[2]))
    v, r, s = map(_number, fields[-3:])
    return _signed(bytes([kind]) + rlp_bytes(fields[:-3]), (v, r, s), _number(fields[0]), content)


def _signed(
    message: bytes, signature: tuple[int, int, int], chain_id: int | None, content: tuple[Any, Any, Any, int, int]
) -> SignedTransaction:
    nonce, to, data, max_fee, max_tip = content
    if not (isinstance(to, bytes) and len(to) in (0, 20) and isinstance(data, bytes)):
        raise InvalidContent("a malformed recipient or malformed calldata")
    if signature[2] > MAX_S:
        raise InvalidContent("a signature with a high s, which chains reject")
    signer = signer_of(keccak(message), *signature)
    recipient = to_checksum_address(to) if to else None
    return SignedTransaction(signer, chain_id, _number(nonce), recipient, data, max_fee, max_tip)


def _amount(word: Any) -> int:
    """A price; in any form, as no record depends on it."""
    return int.from_bytes(word[-32:], "big") if isinstance(word, bytes) else 0


def _number(word: Any) -> int:
    if not isinstance(word, bytes) or len(word) > 32 or word[:1] == b"\0":
        raise InvalidContent("a number that is not in canonical form")
    return int.from_bytes(word, "big")
