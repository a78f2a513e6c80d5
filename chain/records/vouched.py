"""Records of rounds with bounds: proofs about updates, what members say of each other's, and points that they reveal.

Each names the block whose hash the random sketch of the updates follows from, so that none of them can stand on a
branch of the chain for which its author did not make it.
"""

from types import MappingProxyType

from fedgrove.chain.records.base import Blob, MemberRecord, Phase, PhaseEnd, record
from fedgrove.chain.records.uploads import Committed

__all__ = ["MOST_REVEALS", "AffirmEnded", "Affirmed", "Revealed", "VouchEnded", "Vouched"]

MOST_REVEALS = 8
"""How often a client may reveal points in a round; each time any number of them."""


@record
class Vouched(MemberRecord):
    """A client's proof that its masked update is bounded."""

    CALLS = ("vouch",)
    LEAVES = MappingProxyType({"vouch": "Vouched (VouchEnded )?"})
    GAS = 200_000
    FIELD = "voucher"
    TITLE = "Voucher"
    PHASE = Phase.VOUCH
    AFTER = Committed
    BLOBS = MappingProxyType(
        {
            "digest": Blob(
                "voucher",
                "voucher",
                "A proof that this client's hidden update is within its bound, and commitments to its masks.",
                upload=True,
            )
        }
    )

    block_hash: bytes
    digest: bytes


@record
class VouchEnded(PhaseEnd):
    """The vouch phase ended with this block, as everyone has vouched who committed."""

    CALLS = ("vouch",)
    FIELD = "phase end"
    TITLE = "Everyone has vouched"
    PHASE = Phase.VOUCH
    ENDS = Vouched


@record
class Affirmed(MemberRecord):
    """What a client says of the members whose shares it holds: a bit each in ``word``, 32 bytes."""

    CALLS = ("affirm",)
    LEAVES = MappingProxyType({"affirm": "Affirmed (AffirmEnded )?"})
    GAS = 120_000
    FIELD = "affirmation"
    TITLE = "Affirmation"
    PHASE = Phase.AFFIRM
    AFTER = Committed

    block_hash: bytes
    word: bytes


@record
class AffirmEnded(PhaseEnd):
    """The affirm phase ended with this block, as everyone has affirmed who committed."""

    CALLS = ("affirm",)
    FIELD = "phase end"
    TITLE = "Everyone has affirmed"
    PHASE = Phase.AFFIRM
    ENDS = Affirmed


@record
class Revealed(MemberRecord):
    """Points that a client shares with partners, against what these published, ``MOST_REVEALS`` times at most."""

    CALLS = ("reveal",)
    GAS = 120_000
    FIELD = "reveal"
    TITLE = "Revealed points"
    PHASE = Phase.AFFIRM
    AFTER = Committed
    BLOBS = MappingProxyType(
        {
            "digest": Blob(
                "reveal",
                "revealed points",
                "Points that this client shares with partners, with proofs: they show whose commitment is false.",
                upload=True,
            )
        }
    )

    block_hash: bytes
    digest: bytes
