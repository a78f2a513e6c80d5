"""Records of shares and masked updates."""

from types import MappingProxyType

from fedgrove.chain.records.base import Blob, MemberRecord, Phase, PhaseEnd, record
from fedgrove.chain.records.draws import Drawn

__all__ = ["CommitEnded", "Committed", "ShareEnded", "Shared"]


@record
class Shared(MemberRecord):
    """A client's encrypted shares."""

    CALLS = ("share",)
    LEAVES = MappingProxyType({"share": "Shared (ShareEnded )?"})
    GAS = 120_000
    FIELD = "share"
    TITLE = "Sealed shares"
    PHASE = Phase.SHARE
    AFTER = Drawn
    BLOBS = MappingProxyType(
        {
            "digest": Blob(
                "shares",
                "sealed shares",
                "Shares of this client's two secrets, each sealed for its holder.",
                upload=True,
            )
        }
    )

    digest: bytes


@record
class ShareEnded(PhaseEnd):
    """The share phase ended with this block, as everyone has shared who drew."""

    CALLS = ("share",)
    FIELD = "phase end"
    TITLE = "Everyone has shared"
    PHASE = Phase.SHARE
    ENDS = Shared


@record
class Committed(MemberRecord):
    """A client's masked update, and the hash of its self-mask seed."""

    CALLS = ("commit",)
    LEAVES = MappingProxyType({"commit": "Committed (CommitEnded )?"})
    GAS = 150_000
    FIELD = "commit"
    TITLE = "Masked update"
    PHASE = Phase.COMMIT
    AFTER = Shared
    BLOBS = MappingProxyType(
        {
            "digest": Blob(
                "update",
                "masked update",
                "A masked update: its bytes look random, because the masks cancel only in the sum of all updates.",
                upload=True,
            )
        }
    )

    digest: bytes
    seed_hash: bytes


@record
class CommitEnded(PhaseEnd):
    """The commit phase ended with this block, as everyone has committed who shared."""

    CALLS = ("commit",)
    FIELD = "phase end"
    TITLE = "Everyone has committed"
    PHASE = Phase.COMMIT
    ENDS = Committed
