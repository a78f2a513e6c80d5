"""A transaction as its author signed it: who, on which chain, to whom, with which calldata."""

from dataclasses import dataclass, field
from typing import Any

import rlp
from eth_account import Account
from eth_utils import to_checksum_address
from rlp.exceptions import RLPException

MAX_TYPE = 4
_UNPROTECTED = (27, 28)


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """What the signature covers, as far as records need it.

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
    """

    sender: str
    chain_id: int | None
    nonce: int
    to: str | None
    data: bytes = field(repr=False)


def decode_transaction(raw: bytes) -> SignedTransaction:
    """Read the EIP-2718 encoding of a signed transaction of types 0 to 4; ValueError for anything else."""
    try:
        sender = Account.recover_transaction(raw)
        kind = raw[0] if raw[0] < 0x80 else 0
        fields = rlp.decode(raw[1:] if kind else raw)
        chain_id, nonce, to, data = _legacy(fields) if kind == 0 else _typed(kind, fields)
    except (RLPException, IndexError, TypeError, RecursionError) as fault:
        raise ValueError(f"not a transaction: {fault}") from None
    except Exception as fault:
        # eth-account raises errors of several libraries for bytes that are no signed transaction.
        raise ValueError(f"not a signed transaction: {type(fault).__name__}") from None
    return SignedTransaction(sender, chain_id, nonce, to_checksum_address(to) if to else None, data)


def _legacy(fields: list[Any]) -> tuple[int | None, int, bytes, bytes]:
    nonce, _, _, to, _, data, parity, _, _ = fields
    v = int.from_bytes(parity, "big")
    return (None if v in _UNPROTECTED else (v - 35) // 2), int.from_bytes(nonce, "big"), to, data


def _typed(kind: int, fields: list[Any]) -> tuple[int, int, bytes, bytes]:
    if kind > MAX_TYPE:
        raise ValueError(f"transactions of type {kind} are not known")
    prices = 1 if kind == 1 else 2
    to, data = fields[3 + prices], fields[5 + prices]
    return int.from_bytes(fields[0], "big"), int.from_bytes(fields[1], "big"), to, data
