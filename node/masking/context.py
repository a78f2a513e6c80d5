"""The round, its ledger, and who takes part."""

from dataclasses import dataclass

KEY_BYTES = 32


@dataclass(frozen=True)
class RoundContext:
    """A round, unmistakably: part of every seed and of every sealed message.

    Attributes
    ----------
    chain_id : int
        Of the EVM chain, 0 to 2²⁵⁶ − 1.
    ledger : str
        Address of the training ledger, 0x and 40 hexadecimal digits.
    round : int
        From 1.
    """

    chain_id: int
    ledger: str
    round: int

    def __post_init__(self) -> None:
        if not 0 <= self.chain_id < 1 << 256:
            raise ValueError(f"chain id {self.chain_id} is not an unsigned 256-bit number")
        if not 1 <= self.round < 1 << 64:
            raise ValueError(f"round {self.round} is not a number from 1 to 2^64 - 1")
        if len(self.ledger) != 42 or self.ledger[:2] != "0x" or len(bytes.fromhex(self.ledger[2:])) != 20:
            raise ValueError(f"{self.ledger!r} is not the address of a contract")

    def to_bytes(self) -> bytes:
        """60 bytes: chain id (32), ledger (20), round (8)."""
        return self.chain_id.to_bytes(32) + bytes.fromhex(self.ledger[2:]) + self.round.to_bytes(8)


@dataclass(frozen=True)
class Participant:
    """A drawn client at its leaf.

    Attributes
    ----------
    position : int
        Leaf of the cooperation tree, from 0.
    client : int
        Index on the ledger, uint32, from 1.
    samples : int
        nᵢ, from 1.
    mask_key : bytes
        x-only public key on secp256k1 of this round, 32 bytes; may be of no point.
    seal_key : bytes
        X25519 public key of this round, 32 bytes.
    """

    position: int
    client: int
    samples: int
    mask_key: bytes
    seal_key: bytes

    def __post_init__(self) -> None:
        if not 1 <= self.client < 1 << 32:
            raise ValueError(f"client {self.client} is not a number from 1 to 2^32 - 1")
        if not 1 <= self.samples < 1 << 32:
            raise ValueError(f"client {self.client} has {self.samples} samples, expected 1 to 2^32 - 1")
        if len(self.mask_key) != KEY_BYTES or len(self.seal_key) != KEY_BYTES:
            raise ValueError(f"a key of client {self.client} is not {KEY_BYTES} bytes long")

    def to_bytes(self) -> bytes:
        """72 bytes: client (4), samples (4), mask key (32), sealing key (32). The position is that in the list."""
        return self.client.to_bytes(4) + self.samples.to_bytes(4) + self.mask_key + self.seal_key
