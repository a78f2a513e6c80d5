"""What all records have in common: their place on the chain, and what a kind of record states of itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import ClassVar, NamedTuple


class FailureReason(IntEnum):
    """Why a round was recorded as failed."""

    NONE = 0
    DEADLINE = 1
    TOO_FEW_SURVIVORS = 2
    TOO_FEW_SHARES = 3
    UPDATE_UNAVAILABLE = 4
    INVALID_UPDATE = 5
    INVALID_RELEASE = 6


class Phase(IntEnum):
    """Phase of a round. SKIPPED, FAILED and VOIDED are final; CLOSED is, unless its clients dispute it.

    OVERDUE: anyone may record the round as failed.
    """

    NONE = 0
    SEEDING = 1
    DRAW = 2
    SEAL = 3
    SHARE = 4
    COMMIT = 5
    RECOVER = 6
    CLOSE = 7
    CLOSED = 8
    SKIPPED = 9
    FAILED = 10
    OVERDUE = 11
    VOIDED = 12


class Position(NamedTuple):
    """Place of a log: block number, transaction hash (32 bytes), index of the log within the block.

    ``author`` is the checksummed address of the account that answers for the record, by its signature; empty where
    nobody has checked that.
    """

    block: int
    transaction: bytes
    log_index: int
    author: str = ""


@dataclass(frozen=True, slots=True)
class Log:
    """One log as the chain holds it: emitting contract (checksummed), topics (32 bytes each), data, place."""

    address: str
    topics: tuple[bytes, ...]
    data: bytes
    at: Position


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one of the contracts' functions, as far as records follow from it.

    Attributes
    ----------
    name : str
        Of the function.
    words : sequence of bytes
        The first arguments, 32 bytes each. Static arguments come first in every function that leaves records, so that
        no offset has to be followed.
    data : bytes
        All calldata.
    sender : str
        Who signed it, checksummed.
    """

    name: str
    words: Sequence[bytes]
    data: bytes
    sender: str

    def number(self, index: int) -> int:
        """An argument as a number."""
        return int.from_bytes(self.words[index], "big")


@dataclass(frozen=True, slots=True)
class Record:
    """Base of all records: their place on the chain.

    What a kind of record is stands in its class, and everything else asks there: the layout of its event (Solidity
    types; ``i:`` marks indexed parameters, which come first), the functions that leave it, its name for people, the
    phase of a round to which it belongs, and which of its fields are digests of blobs, by what the blobs are.
    """

    EVENT: ClassVar[str] = ""
    CALLS: ClassVar[tuple[str, ...]] = ()
    TITLE: ClassVar[str] = ""
    PHASE: ClassVar[Phase] = Phase.NONE
    BLOBS: ClassVar[Mapping[str, str]] = MappingProxyType({})

    at: Position

    def follows_from(self, call: Call) -> bool:
        """Whether a call of one of ``CALLS`` leaves this record, as far as calldata alone can tell."""
        raise NotImplementedError(f"a {type(self).__name__} follows from no call")
