"""Draws that a client signs and somebody else submits (EIP-712), so that one transaction can carry many."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from eth_abi import encode
from eth_utils import keccak, to_checksum_address

from fedgrove.chain.crypto import vrf
from fedgrove.chain.crypto.account import MAX_S, Account, signer_of_bytes
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.records.calldata import ARGUMENTS, WORD, byte_string, word
from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.errors import InvalidContent

_DOMAIN = (("name", "string"), ("version", "string"), ("chainId", "uint256"), ("verifyingContract", "address"))
_DRAW = (
    ("round", "uint64"),
    ("account", "address"),
    ("vrfX", "uint256"),
    ("vrfY", "uint256"),
    ("maskKey", "bytes32"),
    ("sealKey", "bytes32"),
    ("samples", "uint32"),
    ("message", "bytes"),
)


@dataclass(frozen=True, slots=True)
class SignedDraw:
    """A draw for one round, signed by ``account``; nothing in it is secret."""

    account: str
    vrf_x: int
    vrf_y: int
    mask_key: bytes
    seal_key: bytes
    samples: int
    message: bytes
    signature: bytes

    def gives(self, proof: bytes) -> bool:
        """Whether its message is that of an 81-byte proof: Γx and s begin the one, and are in the other."""
        return (self.message[:32], self.message[32:64]) == (proof[1:33], proof[49:])

    def as_tuple(self) -> tuple[object, ...]:
        """The fields in the order of the Solidity struct."""
        keys = (self.vrf_x, self.vrf_y, self.mask_key, self.seal_key)
        return (self.account, *keys, self.samples, self.message, self.signature)


def sign_draw(
    deployment: Deployment, number: int, keys: Keys, alpha: bytes, mask_key: bytes, seal_key: bytes, samples: int
) -> SignedDraw:
    """Prove the VRF output over ``alpha`` (``tree.draw_alpha``) and sign the draw for ``Ledger.draw_batch``."""
    x, y = vrf.coordinates(keys.vrf_public)
    message = vrf.hints(keys.vrf_public, vrf.prove(keys.vrf, alpha), alpha)
    unsigned = SignedDraw(keys.address, x, y, mask_key, seal_key, samples, message, b"")
    return signed_by(keys.account, deployment, number, unsigned)


def signed_by(account: Account, deployment: Deployment, number: int, item: SignedDraw) -> SignedDraw:
    """The draw with this account's signature, whatever was there before."""
    return replace(item, signature=account.sign_bytes(_digest(deployment, number, item)))


def batched_draw(data: bytes, index: int) -> SignedDraw:
    """The draw at ``index`` in the calldata of a batch, as Solidity reads it; unchecked.

    A batch may be encoded in odd ways that the contract takes: offsets go anywhere, backwards too, and wrap around at
    2²⁵⁶. Bytes beyond the calldata read as zero.
    """
    items = ARGUMENTS + word(data, ARGUMENTS + WORD) + WORD
    place = items + word(data, items + WORD * index)
    account, x, y, mask_key, seal_key, samples = (word(data, place + WORD * field) for field in range(6))
    message, signature = (byte_string(data, place + word(data, place + WORD * field)) for field in (6, 7))
    address = to_checksum_address((account % (1 << 160)).to_bytes(20, "big"))
    round_keys = (mask_key.to_bytes(WORD, "big"), seal_key.to_bytes(WORD, "big"))
    return SignedDraw(address, x, y, *round_keys, samples, message, signature)


def batched_draws(data: bytes) -> int:
    """How many draws the calldata of a batch holds."""
    return word(data, ARGUMENTS + word(data, ARGUMENTS + WORD))


def is_signed(item: SignedDraw, deployment: Deployment, number: int) -> bool:
    """Whether its account signed a draw for ``number``, as ``DrawSignature.sol``: r ‖ s ‖ v, s in the lower half."""
    if int.from_bytes(item.signature[32:64], "big") > MAX_S or item.samples >> 32:
        return False
    try:
        return signer_of_bytes(_digest(deployment, number, item), item.signature) == item.account
    except InvalidContent:
        return False


def _digest(deployment: Deployment, number: int, item: SignedDraw) -> bytes:
    """What a draw's author signs (EIP-712)."""
    domain = ("fedgrove", "1", deployment.chain_id, deployment.ledger)
    values = (number, *item.as_tuple()[:-1])
    return keccak(b"\x19\x01" + _struct("EIP712Domain", _DOMAIN, domain) + _struct("Draw", _DRAW, values))


def _struct(name: str, fields: tuple[tuple[str, str], ...], values: tuple[object, ...]) -> bytes:
    """hashStruct of EIP-712 for fields that are no structs: texts and bytes stand in it as their hashes."""
    kinds = [kind for _, kind in fields]
    members = ",".join(f"{kind} {field}" for field, kind in fields)
    hashed: dict[str, Callable[[Any], bytes]] = {"string": lambda text: keccak(text=text), "bytes": keccak}
    words = [hashed[kind](value) if kind in hashed else value for kind, value in zip(kinds, values, strict=True)]
    static = ["bytes32" if kind in hashed else kind for kind in kinds]
    return keccak(encode(["bytes32", *static], [keccak(text=f"{name}({members})"), *words]))


def key_tag(x: int, y: int) -> int:
    """The registry's 160-bit tag of a VRF public key: low bits of keccak256(abi.encode(x, y))."""
    return int.from_bytes(keccak(encode(["uint256", "uint256"], [x, y]))[12:], "big")
