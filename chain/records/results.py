"""Records of the recovery and of how a round ends."""

from dataclasses import dataclass
from types import MappingProxyType

from fedgrove.chain.records.base import Call, FailureReason, Phase, Record


@dataclass(frozen=True, slots=True)
class Released(Record):
    """The shares that a client releases for the recovery."""

    EVENT = "i:uint64 i:uint32 bytes32"
    CALLS = ("release",)
    TITLE = "Released shares"
    PHASE = Phase.RECOVER
    BLOBS = MappingProxyType({"digest": "release"})

    round: int
    client: int
    digest: bytes

    def follows_from(self, call: Call) -> bool:
        return (call.number(0), call.words[1]) == (self.round, self.digest)


@dataclass(frozen=True, slots=True)
class Recovered(Record):
    """The survivor list is closed; the recovery record."""

    EVENT = "i:uint64 bytes32 uint32"
    CALLS = ("recover",)
    TITLE = "Recovery"
    PHASE = Phase.RECOVER
    BLOBS = MappingProxyType({"digest": "recovery"})

    round: int
    digest: bytes
    survivors: int

    def follows_from(self, call: Call) -> bool:
        return (call.number(0), call.words[1]) == (self.round, self.digest)


@dataclass(frozen=True, slots=True)
class Closed(Record):
    """The round ended with the next global model."""

    EVENT = "i:uint64 bytes32 bytes32"
    CALLS = ("close",)
    TITLE = "Round closed"
    PHASE = Phase.CLOSE
    BLOBS = MappingProxyType({"model_digest": "model", "metrics_digest": "metrics"})

    round: int
    model_digest: bytes
    metrics_digest: bytes

    def follows_from(self, call: Call) -> bool:
        closed = (self.round, self.model_digest, self.metrics_digest)
        return (call.number(0), call.words[1], call.words[2]) == closed


@dataclass(frozen=True, slots=True)
class Failed(Record):
    """The round ended without a model."""

    EVENT = "i:uint64 uint8 bytes32"
    CALLS = ("fail",)
    TITLE = "Round failed"
    PHASE = Phase.CLOSE
    BLOBS = MappingProxyType({"evidence": "evidence"})

    round: int
    reason: FailureReason
    evidence: bytes

    def follows_from(self, call: Call) -> bool:
        reason = self.reason in (call.number(1), FailureReason.DEADLINE)
        return reason and (call.number(0), call.words[2]) == (self.round, self.evidence)


@dataclass(frozen=True, slots=True)
class Disputed(Record):
    """A client that committed in a closed round says that its closing is wrong; ``evidence`` is a blob's digest."""

    EVENT = "i:uint64 i:uint32 bytes32"
    CALLS = ("disputeRound",)
    TITLE = "Dispute"
    PHASE = Phase.CLOSE
    BLOBS = MappingProxyType({"evidence": "evidence"})

    round: int
    client: int
    evidence: bytes

    def follows_from(self, call: Call) -> bool:
        return (call.number(0), call.words[1]) == (self.round, self.evidence)


@dataclass(frozen=True, slots=True)
class Voided(Record):
    """A closed round that most of its clients disputed, or the round that ran on its model (``disputes`` is then 0).

    ``model_digest`` is the model that stands again.
    """

    EVENT = "i:uint64 bytes32 uint32"
    CALLS = ("disputeRound",)
    TITLE = "Round voided"
    PHASE = Phase.CLOSE
    BLOBS = MappingProxyType({"model_digest": "model"})

    round: int
    model_digest: bytes
    disputes: int

    def follows_from(self, call: Call) -> bool:
        return True  # a dispute voids the round that runs, too; which ones is for the rules
