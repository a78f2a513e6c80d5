"""Records of the recovery and of how a round ends."""

from types import MappingProxyType

from fedgrove.chain.records.base import (
    EVIDENCE,
    MODEL,
    Blob,
    Call,
    FailureReason,
    MemberRecord,
    Phase,
    RoundRecord,
    record,
)
from fedgrove.chain.records.draws import Drawn

__all__ = ["Closed", "Disputed", "Failed", "Recovered", "Released", "Voided"]


@record
class Released(MemberRecord):
    """The shares that a client releases for the recovery."""

    EVENT = "i:uint64 i:uint32 bytes32"
    CALLS = ("release",)
    ARGUMENTS = ("round", "digest")
    GAS = 120_000
    FIELD = "release"
    TITLE = "Released shares"
    PHASE = Phase.RECOVER
    AFTER = Drawn
    BLOBS = MappingProxyType(
        {
            "digest": Blob(
                "release",
                "released shares",
                "The shares that this client held for others and released after the commitments.",
            )
        }
    )

    digest: bytes


@record
class Recovered(RoundRecord):
    """The survivor list is closed; the recovery record."""

    EVENT = "i:uint64 bytes32 uint32"
    CALLS = ("recover",)
    ARGUMENTS = ("round", "digest")
    GAS = 150_000
    FIELD = "recovery"
    TITLE = "Recovery"
    PHASE = Phase.RECOVER
    BLOBS = MappingProxyType({"digest": Blob("recovery", "recovery record")})
    COORDINATES = True

    digest: bytes
    survivors: int


@record
class Closed(RoundRecord):
    """The round ended with the next global model."""

    EVENT = "i:uint64 bytes32 bytes32"
    CALLS = ("close",)
    ARGUMENTS = ("round", "model_digest", "metrics_digest")
    GAS = 150_000
    FIELD = "closed"
    TITLE = "Round closed"
    PHASE = Phase.CLOSE
    BLOBS = MappingProxyType({"model_digest": MODEL, "metrics_digest": Blob("metrics", "metrics")})
    COORDINATES = True

    model_digest: bytes
    metrics_digest: bytes


@record
class Failed(RoundRecord):
    """The round ended without a model."""

    EVENT = "i:uint64 uint8 bytes32"
    CALLS = ("fail",)
    ARGUMENTS = ("round", "", "evidence")
    GAS = 150_000
    FIELD = "failed"
    TITLE = "Round failed"
    PHASE = Phase.CLOSE
    BLOBS = MappingProxyType({"evidence": EVIDENCE})
    COORDINATES = True

    reason: FailureReason
    evidence: bytes

    def follows_from(self, call: Call) -> bool:
        # The ledger records a deadline that has passed, whatever reason was given.
        return self.reason in (call.number(1), FailureReason.DEADLINE) and self.is_argument_of(call)


@record
class Disputed(MemberRecord):
    """A client that committed in a closed round says that its closing is wrong; ``evidence`` is a blob's digest."""

    EVENT = "i:uint64 i:uint32 bytes32"
    CALLS = ("disputeRound",)
    ARGUMENTS = ("round", "evidence")
    LEAVES = MappingProxyType({"disputeRound": "Disputed (Voided ){0,2}"})
    GAS = 200_000
    FIELD = "dispute"
    TITLE = "Dispute"
    PHASE = Phase.CLOSE
    BLOBS = MappingProxyType({"evidence": EVIDENCE})

    evidence: bytes


@record
class Voided(RoundRecord):
    """A closed round that most of its clients disputed, or the round that ran on its model (``disputes`` is then 0).

    ``model_digest`` is the model that stands again. A dispute voids the round that runs, too, so that no argument of
    its call need be this round: which ones are voided is for the rules.
    """

    EVENT = "i:uint64 bytes32 uint32"
    CALLS = ("disputeRound",)
    ARGUMENTS = ()
    FIELD = "voided"
    TITLE = "Round voided"
    PHASE = Phase.CLOSE
    BLOBS = MappingProxyType({"model_digest": MODEL})

    model_digest: bytes
    disputes: int
