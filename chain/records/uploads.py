"""Records of shares and masked updates."""

from dataclasses import dataclass
from types import MappingProxyType

from fedgrove.chain.records.base import Call, Phase, Record


@dataclass(frozen=True, slots=True)
class Shared(Record):
    """A client's encrypted shares."""

    EVENT = "i:uint64 i:uint32 bytes32"
    CALLS = ("share",)
    TITLE = "Sealed shares"
    PHASE = Phase.SHARE
    BLOBS = MappingProxyType({"digest": "shares"})

    round: int
    client: int
    digest: bytes

    def follows_from(self, call: Call) -> bool:
        return (call.number(0), call.words[1]) == (self.round, self.digest)


@dataclass(frozen=True, slots=True)
class ShareEnded(Record):
    """The share phase ended with this block, as everyone has shared who drew."""

    EVENT = "i:uint64"
    CALLS = ("share",)
    TITLE = "Everyone has shared"
    PHASE = Phase.SHARE

    round: int

    def follows_from(self, call: Call) -> bool:
        return call.number(0) == self.round


@dataclass(frozen=True, slots=True)
class Committed(Record):
    """A client's masked update, and the hash of its self-mask seed."""

    EVENT = "i:uint64 i:uint32 bytes32 bytes32"
    CALLS = ("commit",)
    TITLE = "Masked update"
    PHASE = Phase.COMMIT
    BLOBS = MappingProxyType({"digest": "update"})

    round: int
    client: int
    digest: bytes
    seed_hash: bytes

    def follows_from(self, call: Call) -> bool:
        committed = (self.round, self.digest, self.seed_hash)
        return (call.number(0), call.words[1], call.words[2]) == committed


@dataclass(frozen=True, slots=True)
class CommitEnded(Record):
    """The commit phase ended with this block, as everyone has committed who shared."""

    EVENT = "i:uint64"
    CALLS = ("commit",)
    TITLE = "Everyone has committed"
    PHASE = Phase.COMMIT

    round: int

    def follows_from(self, call: Call) -> bool:
        return call.number(0) == self.round
