"""Records of a round up to the end of its draws."""

from dataclasses import dataclass
from types import MappingProxyType

from fedgrove.chain.records.base import Call, Phase, Record
from fedgrove.chain.records.calldata import list_length


@dataclass(frozen=True, slots=True)
class RoundOpened(Record):
    """A round was opened. ``sampling_rate`` is in parts per million; ``barred``: clients named as barred."""

    EVENT = "i:uint64 bytes32 bytes32 uint32 uint64 uint64 uint32"
    CALLS = ("open",)
    TITLE = "Round opened"
    PHASE = Phase.SEEDING
    BLOBS = MappingProxyType({"model_digest": "model", "config_digest": "config"})

    round: int
    model_digest: bytes
    config_digest: bytes
    sampling_rate: int
    opened_at: int
    seed_block: int
    barred: int

    def follows_from(self, call: Call) -> bool:
        return call.words[0] == self.model_digest and list_length(call.data, 1) == self.barred


@dataclass(frozen=True, slots=True)
class SeedFixed(Record):
    """The hash of the seed block, and the seed that follows from it."""

    EVENT = "i:uint64 bytes32 bytes32"
    CALLS = ("fixSeed", "draw", "drawBatch")
    TITLE = "Seed fixed"
    PHASE = Phase.SEEDING

    round: int
    block_hash: bytes
    seed: bytes

    def follows_from(self, call: Call) -> bool:
        return call.number(0) == self.round


@dataclass(frozen=True, slots=True)
class Drawn(Record):
    """A client was drawn, with this round's X25519 keys and an 81-byte RFC 9381 proof."""

    EVENT = "i:uint64 i:uint32 uint32 bytes32 bytes32 bytes"
    CALLS = ("draw", "drawBatch")
    TITLE = "Draw"
    PHASE = Phase.DRAW

    round: int
    client: int
    samples: int
    mask_key: bytes
    seal_key: bytes
    proof: bytes

    def follows_from(self, call: Call) -> bool:
        drawn = (self.round, self.mask_key, self.seal_key, self.samples)
        return (call.number(0), call.words[3], call.words[4], call.number(5)) == drawn


@dataclass(frozen=True, slots=True)
class DrawRejected(Record):
    """An item of a batch was passed over; ``reason`` is the 4-byte selector of the error."""

    EVENT = "i:uint64 i:address bytes4"
    CALLS = ("drawBatch",)
    TITLE = "Draw rejected"
    PHASE = Phase.DRAW

    round: int
    account: str
    reason: bytes

    def follows_from(self, call: Call) -> bool:
        return call.number(0) == self.round


@dataclass(frozen=True, slots=True)
class DrawEnded(Record):
    """The draws ended with this block, as everyone has drawn who may."""

    EVENT = "i:uint64"
    CALLS = ("draw", "drawBatch")
    TITLE = "Everyone has drawn"
    PHASE = Phase.DRAW

    round: int

    def follows_from(self, call: Call) -> bool:
        return call.number(0) == self.round
