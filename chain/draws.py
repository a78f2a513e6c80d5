"""Draws that a client signs and somebody else submits (EIP-712), so that one transaction can carry many."""

from dataclasses import dataclass

from eth_abi import encode
from eth_account import Account
from eth_account.messages import SignableMessage, encode_typed_data
from eth_keys.exceptions import BadSignature
from eth_utils import keccak, to_checksum_address

from chain import vrf
from chain.deployment import Deployment
from chain.keys import Keys

_WORD = 32
_MAX_S = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0  # half of secp256k1's order (EIP-2)
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

    def as_tuple(self) -> tuple:
        """The fields in the order of the Solidity struct."""
        keys = (self.vrf_x, self.vrf_y, self.mask_key, self.seal_key)
        return (self.account, *keys, self.samples, self.message, self.signature)


def sign_draw(
    deployment: Deployment, round: int, keys: Keys, alpha: bytes, mask_key: bytes, seal_key: bytes, samples: int
) -> SignedDraw:
    """Prove the VRF output over ``alpha`` (``tree.draw_alpha``) and sign the draw for ``Ledger.draw_batch``."""
    x, y = vrf.coordinates(keys.vrf_public)
    message = vrf.hints(keys.vrf_public, vrf.prove(keys.vrf, alpha), alpha)
    values = (keys.address, x, y, mask_key, seal_key, samples, message)
    signature = bytes(keys.account.sign_message(_signable(deployment, round, values)).signature)
    return SignedDraw(*values, signature)


def batched_draws(data: bytes, deployment: Deployment, round: int) -> list[SignedDraw]:
    """The draws in the calldata of a batch for ``round`` that their accounts signed; what is malformed is left out.

    Reads as Solidity does, which follows any offset that stays within the calldata.
    """
    body = data[4:]
    if _number(body, 0) != round:
        return []
    start = _number(body, _WORD)
    count = min(_number(body, start), len(body) // _WORD)
    items = (_item(body, start + _WORD, index) for index in range(count))
    return [item for item in items if item is not None and _is_signed(item, deployment, round)]


def _item(body: bytes, items: int, index: int) -> SignedDraw | None:
    place = items + _number(body, items + _WORD * index)
    account, x, y, _, _, samples = (_number(body, place + _WORD * field) for field in range(6))
    mask_key, seal_key = (body[place + _WORD * field :][:_WORD] for field in (3, 4))
    message, signature = (_bytes(body, place + _number(body, place + _WORD * field)) for field in (6, 7))
    if account >> 160 or samples >> 32 or len(seal_key) < _WORD:
        return None
    address = to_checksum_address(account.to_bytes(20, "big"))
    return SignedDraw(address, x, y, mask_key, seal_key, samples, message, signature)


def _is_signed(item: SignedDraw, deployment: Deployment, round: int) -> bool:
    """As ``DrawSignature.sol``: r ‖ s ‖ v, s in the lower half."""
    signature = item.signature
    if len(signature) != 65 or signature[64] not in (27, 28) or int.from_bytes(signature[32:64], "big") > _MAX_S:
        return False
    try:
        signer = Account.recover_message(_signable(deployment, round, item.as_tuple()[:-1]), signature=signature)
    except (BadSignature, ValueError):
        return False
    return signer == item.account


def _number(body: bytes, place: int) -> int:
    """The word at ``place``; zero where the calldata ends before."""
    return int.from_bytes(body[place : place + _WORD], "big") if place + _WORD <= len(body) else 0


def _bytes(body: bytes, place: int) -> bytes:
    return body[place + _WORD :][: _number(body, place)]


def _signable(deployment: Deployment, round: int, values: tuple) -> SignableMessage:
    return encode_typed_data(
        domain_data={
            "name": "fedgrove",
            "version": "1",
            "chainId": deployment.chain_id,
            "verifyingContract": deployment.ledger,
        },
        message_types={"Draw": [{"name": name, "type": kind} for name, kind in _DRAW]},
        message_data=dict(zip((name for name, _ in _DRAW), (round, *values), strict=True)),
    )


def key_tag(x: int, y: int) -> int:
    """The registry's 160-bit tag of a VRF public key: low bits of keccak256(abi.encode(x, y))."""
    return int.from_bytes(keccak(encode(["uint256", "uint256"], [x, y]))[12:], "big")
