"""What all records have in common: their place on the chain, and what a kind of record states of itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypeVar, dataclass_transform

from fedgrove.chain.records.abi import events, functions

__all__ = [
    "KINDS",
    "Blob",
    "Call",
    "Log",
    "MemberRecord",
    "Phase",
    "PhaseEnd",
    "Position",
    "Record",
    "RoundRecord",
]


class Phase(IntEnum):
    """Phase of a round. SKIPPED, FAILED and VOIDED are final; CLOSED is, except for its clients' judgements.

    OVERDUE: anyone may record the round as failed. VOUCH and AFFIRM are there only where updates are bounded.
    """

    NONE = 0
    SEEDING = 1
    DRAW = 2
    SEAL = 3
    SHARE = 4
    COMMIT = 5
    VOUCH = 6
    AFFIRM = 7
    RECOVER = 8
    CLOSED = 9
    SKIPPED = 10
    FAILED = 11
    OVERDUE = 12
    VOIDED = 13


class Position(NamedTuple):
    """Place of a log: block number, transaction hash (32 bytes), index of the log within the block.

    ``author`` is the checksummed address of the account that answers for the record, by its signature; empty where
    nobody has checked that.
    """

    block: int
    transaction: bytes
    log_index: int
    author: str = ""


class Blob(NamedTuple):
    """A blob whose digest a record gives: its role in one word, its name for people, and what it is.

    ``upload`` is for what each member uploads in a round: its bytes are counted, and only its author can read it.
    """

    role: str
    title: str
    meaning: str = ""
    upload: bool = False


MODEL = Blob("model", "model")
METRICS = Blob("metrics", "metrics")


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

    def holds(self, index: int, value: int | bytes | str) -> bool:
        """Whether an argument is this number, these 32 bytes, or this checksummed address."""
        if isinstance(value, int):
            return self.number(index) == value
        if isinstance(value, str):
            return self.words[index][12:].hex() == value[2:].lower()
        return self.words[index] == value


@dataclass(frozen=True, slots=True)
class Record:
    """Base of all records: their place on the chain.

    What a kind of record is stands in its class, and everything else asks there.

    Attributes
    ----------
    CONTRACT : str
        Who emits it; the fields are the parameters of its event there.
    CALLS : tuple of str
        The functions that leave it, its own first; of ``CALLED``, or else of the contract that emits it.
    FREE : tuple of str
        The fields that may differ from the arguments of these functions that have their names and types.
    LEAVES : mapping
        By function, what a call that took effect leaves, as a regular expression over names of records, each with a
        space behind it. A function that is not in any of these mappings leaves one record, the one whose own it is.
    GAS : int
        Limit for its own function, about twice what it was measured to use; 0 where that depends on the arguments.
    FIELD : str
        What a bad record or a remark about it begins with.
    TITLE : str
        Its name for people.
    PHASE : Phase
        The phase of a round to which it belongs.
    BLOBS : mapping
        Which of its fields are digests of blobs, and what the blobs are.
    COORDINATES : bool
        It is the coordinator's work, or that of whoever stands in.
    """

    CONTRACT: ClassVar[str] = "TrainingLedger"
    CALLED: ClassVar[str] = ""
    CALLS: ClassVar[tuple[str, ...]] = ()
    FREE: ClassVar[tuple[str, ...]] = ()
    LEAVES: ClassVar[Mapping[str, str]] = MappingProxyType({})
    GAS: ClassVar[int] = 0
    FIELD: ClassVar[str] = ""
    TITLE: ClassVar[str] = ""
    PHASE: ClassVar[Phase] = Phase.NONE
    BLOBS: ClassVar[Mapping[str, Blob]] = MappingProxyType({})
    COORDINATES: ClassVar[bool] = False

    at: Position

    def follows_from(self, call: Call) -> bool:
        """Whether a call of one of ``CALLS`` leaves this record, as far as calldata alone can tell."""
        return self.is_argument_of(call)

    def is_argument_of(self, call: Call) -> bool:
        """Whether the arguments of a call that are named like fields are these fields, except for ``FREE``."""
        return all(call.holds(index, getattr(self, name)) for index, name in _arguments(type(self), call.name))


@cache
def _arguments(kind: type[Record], function: str) -> list[tuple[int, str]]:
    """The arguments of a function that are fields of what it leaves: their places among all, and their names."""
    own = {name: kind for name, kind, _ in events(kind.CONTRACT)[kind.__name__]}
    called = functions(kind.CALLED or kind.CONTRACT)[function]
    named = enumerate(zip(called.names, called.inputs, strict=True))
    given = [(index, name) for index, (name, typed) in named if own.get(name) == typed and name not in kind.FREE]
    return [(index, name) for index, name in given if not own[name].endswith("[]")]


@dataclass(frozen=True, slots=True)
class RoundRecord(Record):
    """A record of a round."""

    round: int


@dataclass(frozen=True, slots=True)
class MemberRecord(RoundRecord):
    """A member's record of a round, by its own signature: the ledger takes one of each member, in its phase.

    Attributes
    ----------
    AFTER : type of MemberRecord, optional
        The record that its author must have left in the round before; without one the rules say who may leave it.
    """

    AFTER: ClassVar["type[MemberRecord] | None"] = None

    client: int


@dataclass(frozen=True, slots=True)
class PhaseEnd(RoundRecord):
    """A phase ended with this block, as everyone had acted: it follows in the transaction of the last one.

    Attributes
    ----------
    ENDS : type of MemberRecord
        What each has left in the phase.
    """

    ENDS: ClassVar[type[MemberRecord]]


KINDS: list[type[Record]] = []
"""Every kind of record."""

_Kind = TypeVar("_Kind", bound=Record)


@dataclass_transform(frozen_default=True)
def record(kind: type[_Kind]) -> type[_Kind]:
    """Make a class a kind of record: a frozen dataclass that readers, rules, reports and pages know from now on."""
    made = dataclass(frozen=True, slots=True)(kind)
    KINDS.append(made)
    return made
