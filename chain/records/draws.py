"""Records of a round up to the end of its draws."""

from types import MappingProxyType

from fedgrove.chain.records.base import MODEL, Blob, Call, MemberRecord, Phase, PhaseEnd, RoundRecord, record
from fedgrove.chain.records.calldata import list_argument

__all__ = ["DrawEnded", "DrawRejected", "Drawn", "RoundOpened", "SeedFixed"]


@record
class RoundOpened(RoundRecord):
    """A round was opened. ``sampling_rate`` is in parts per million; ``barred``: accounts that may not draw in it."""

    CALLS = ("open",)
    GAS = 300_000
    FIELD = "opened"
    TITLE = "Round opened"
    PHASE = Phase.SEEDING
    BLOBS = MappingProxyType({"model_digest": MODEL, "config_digest": Blob("config", "terms")})
    COORDINATES = True

    model_digest: bytes
    config_digest: bytes
    sampling_rate: int
    opened_at: int
    seed_block: int
    barred: tuple[str, ...]

    def follows_from(self, call: Call) -> bool:
        return self.is_argument_of(call) and list_argument(call.data, 1) == [int(each, 16) for each in self.barred]


@record
class SeedFixed(RoundRecord):
    """The hash of the seed block, and the seed that follows from it."""

    CALLS = ("fixSeed", "draw", "drawBatch")
    GAS = 150_000
    FIELD = "seed"
    TITLE = "Seed fixed"
    PHASE = Phase.SEEDING
    COORDINATES = True

    block_hash: bytes
    seed: bytes


@record
class Drawn(MemberRecord):
    """A client was drawn, with this round's two keys and an 81-byte RFC 9381 proof."""

    CALLS = ("draw", "drawBatch")
    LEAVES = MappingProxyType(
        {
            "draw": "(SeedFixed )?Drawn (DrawEnded )?",
            "drawBatch": "(SeedFixed )?((Drawn|DrawRejected) )*(DrawEnded )?(DrawRejected )*",
        }
    )
    GAS = 400_000
    FIELD = "draw"
    TITLE = "Draw"
    PHASE = Phase.DRAW

    samples: int
    mask_key: bytes
    seal_key: bytes
    proof: bytes


@record
class DrawRejected(RoundRecord):
    """An item of a batch was passed over; ``reason`` is the 4-byte selector of the error."""

    CALLS = ("drawBatch",)
    FIELD = "draw"
    TITLE = "Draw rejected"
    PHASE = Phase.DRAW

    account: str
    reason: bytes


@record
class DrawEnded(PhaseEnd):
    """The draws ended with this block, as everyone has drawn who may."""

    CALLS = ("draw", "drawBatch")
    FIELD = "phase end"
    TITLE = "Everyone has drawn"
    PHASE = Phase.DRAW
    ENDS = Drawn
