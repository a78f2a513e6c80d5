"""Draws that a client signs and somebody else submits (EIP-712), so that one transaction can carry many."""

from dataclasses import dataclass

from eth_abi import encode
from eth_account.messages import encode_typed_data
from eth_utils import keccak

from chain import vrf
from chain.deployment import Deployment
from chain.keys import Keys

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
    values = (round, keys.address, x, y, mask_key, seal_key, samples, message)
    signable = encode_typed_data(
        domain_data={
            "name": "fedgrove",
            "version": "1",
            "chainId": deployment.chain_id,
            "verifyingContract": deployment.ledger,
        },
        message_types={"Draw": [{"name": name, "type": kind} for name, kind in _DRAW]},
        message_data=dict(zip((name for name, _ in _DRAW), values, strict=True)),
    )
    signature = bytes(keys.account.sign_message(signable).signature)
    return SignedDraw(keys.address, x, y, mask_key, seal_key, samples, message, signature)


def key_tag(x: int, y: int) -> int:
    """The registry's 160-bit tag of a VRF public key: low bits of keccak256(abi.encode(x, y))."""
    return int.from_bytes(keccak(encode(["uint256", "uint256"], [x, y]))[12:], "big")
