"""Records of the recovery, of how a round ends, and of what its members say of that."""

from types import MappingProxyType

from fedgrove.chain.records.base import METRICS, MODEL, Blob, MemberRecord, Phase, RoundRecord, record
from fedgrove.chain.records.draws import Drawn

__all__ = ["Closed", "Failed", "Judged", "Released", "Replaced", "Voided"]


@record
class Released(MemberRecord):
    """The shares that a client releases for the recovery, once in each stage.

    ``block_hash`` and ``stage`` are zero where updates are not bounded. In the stages after stage 0 those shares are
    released that open the secrets of members whom the first ones proved to be liars.
    """

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

    block_hash: bytes
    digest: bytes
    stage: int


@record
class Closed(RoundRecord):
    """The round ended with the next global model."""

    CALLS = ("close",)
    GAS = 150_000
    FIELD = "closed"
    TITLE = "Round closed"
    PHASE = Phase.RECOVER
    BLOBS = MappingProxyType({"model_digest": MODEL, "metrics_digest": METRICS})
    COORDINATES = True

    model_digest: bytes
    metrics_digest: bytes


@record
class Failed(RoundRecord):
    """The round ended without a model: overdue, too few committed, or most of these said that nothing may be summed."""

    CALLS = ("fail", "judge")
    GAS = 150_000
    FIELD = "failed"
    TITLE = "Round failed"
    PHASE = Phase.RECOVER


@record
class Judged(MemberRecord):
    """What a client that committed in a round says of it: before its closing that nothing may be summed (zeros).

    After the closing: what it should have been, zeros for no result at all. ``asked`` says which of the two.
    """

    CALLS = ("judge",)
    LEAVES = MappingProxyType({"judge": "Judged (Failed |(Replaced |Voided )(Voided )?)?"})
    GAS = 250_000
    FIELD = "judgement"
    TITLE = "Judgement"
    PHASE = Phase.CLOSED
    BLOBS = MappingProxyType({"model_digest": MODEL, "metrics_digest": METRICS})

    asked: Phase
    model_digest: bytes
    metrics_digest: bytes


@record
class Replaced(RoundRecord):
    """Most of a closed round's members say that this is its result: it takes the place of that of the closing."""

    CALLS = ("judge",)
    FIELD = "replaced"
    TITLE = "Closing replaced"
    PHASE = Phase.CLOSED
    BLOBS = MappingProxyType({"model_digest": MODEL, "metrics_digest": METRICS})

    model_digest: bytes
    metrics_digest: bytes


@record
class Voided(RoundRecord):
    """A closed round to which most of its members want no result, or the round that ran on a model that fell.

    ``model_digest`` is the model that stands. A judgement ends the round that runs, too, so that no argument of its
    call need be this round, nor this model: which ones are voided is for the rules.
    """

    CALLS = ("judge",)
    FREE = ("round", "model_digest")
    FIELD = "voided"
    TITLE = "Round voided"
    PHASE = Phase.CLOSED
    BLOBS = MappingProxyType({"model_digest": MODEL})

    model_digest: bytes
