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

    CALLS = ("release",)
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
                upload=True,
            )
        }
    )

    digest: bytes


@record
class Recovered(RoundRecord):
    """The survivor list is closed; the recovery record."""

    CALLS = ("recover",)
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

    CALLS = ("close",)
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

    CALLS = ("fail",)
    FREE = ("reason",)
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

    CALLS = ("disputeRound",)
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

    CALLS = ("disputeRound",)
    FREE = ("round",)
    FIELD = "voided"
    TITLE = "Round voided"
    PHASE = Phase.CLOSE
    BLOBS = MappingProxyType({"model_digest": MODEL})

    model_digest: bytes
    disputes: int
