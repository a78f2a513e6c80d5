"""What the contracts record: one frozen dataclass per event, decoded from logs that are hostile until checked.

Fields are the events' parameters in snake_case: integers as ``int``, addresses as checksummed ``str``, everything else
as ``bytes``. Digests are the 32-byte sha2-256 digests under which the content store knows the blobs.
"""

import functools
import re
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, NamedTuple

from eth_abi import decode as abi_decode
from eth_abi import encode as abi_encode
from eth_abi.exceptions import DecodingError
from eth_utils import keccak, to_checksum_address

from chain.errors import InvalidLog

PROOF_BYTES = 81
MAX_DATA_BYTES = 1024


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
    """Where a round stands. CLOSED, SKIPPED and FAILED are final; OVERDUE: anyone may record the round as failed."""

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


class Position(NamedTuple):
    """Where a log lies: block number, transaction hash (32 bytes), index of the log within the block."""

    block: int
    transaction: bytes
    log_index: int


@dataclass(frozen=True, slots=True)
class Log:
    """One log as the chain holds it: emitting contract (checksummed), topics (32 bytes each), data, place."""

    address: str
    topics: tuple[bytes, ...]
    data: bytes
    at: Position


@dataclass(frozen=True, slots=True)
class Record:
    """What all records have: their place on the chain."""

    at: Position


@dataclass(frozen=True, slots=True)
class Registered(Record):
    """A client joined; drawable in rounds opened from block ``active_from`` on. ``proof`` is of possession."""

    account: str
    client: int
    vrf_x: int
    vrf_y: int
    mailbox_key: bytes
    active_from: int
    proof: bytes


@dataclass(frozen=True, slots=True)
class Approved(Record):
    """The admin lets an account take part."""

    account: str


@dataclass(frozen=True, slots=True)
class Revoked(Record):
    """The admin ends an approval."""

    account: str


@dataclass(frozen=True, slots=True)
class VrfKeyRotated(Record):
    """A client replaced its VRF key."""

    account: str
    client: int
    vrf_x: int
    vrf_y: int
    active_from: int
    proof: bytes


@dataclass(frozen=True, slots=True)
class MailboxKeyRotated(Record):
    """A client replaced its X25519 mailbox key."""

    account: str
    client: int
    mailbox_key: bytes


@dataclass(frozen=True, slots=True)
class AbsenceRecorded(Record):
    """A client was absent in the latest ended round; ``absences`` counts this one too."""

    client: int
    absences: int


@dataclass(frozen=True, slots=True)
class RoundOpened(Record):
    """A round was opened. ``sampling_rate`` is in parts per million."""

    round: int
    model_digest: bytes
    config_digest: bytes
    sampling_rate: int
    opened_at: int
    seed_block: int


@dataclass(frozen=True, slots=True)
class SeedFixed(Record):
    """The hash of the seed block, and the seed that follows from it."""

    round: int
    block_hash: bytes
    seed: bytes


@dataclass(frozen=True, slots=True)
class Drawn(Record):
    """A client was drawn, with this round's X25519 keys and an 81-byte RFC 9381 proof."""

    round: int
    client: int
    samples: int
    mask_key: bytes
    seal_key: bytes
    proof: bytes


@dataclass(frozen=True, slots=True)
class DrawRejected(Record):
    """An item of a batch was passed over; ``reason`` is the 4-byte selector of the error."""

    round: int
    account: str
    reason: bytes


@dataclass(frozen=True, slots=True)
class Sealed(Record):
    """The order of all drawn clients is fixed."""

    round: int
    drawn: int
    order_root: bytes


@dataclass(frozen=True, slots=True)
class SealChunk(Record):
    """A sender has placed this many tickets of a large round so far."""

    round: int
    placed: int


@dataclass(frozen=True, slots=True)
class Skipped(Record):
    """Fewer clients than the quorum were drawn."""

    round: int
    drawn: int


@dataclass(frozen=True, slots=True)
class Shared(Record):
    """A client's encrypted shares."""

    round: int
    client: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Committed(Record):
    """A client's masked update, and the hash of its self-mask seed."""

    round: int
    client: int
    digest: bytes
    seed_hash: bytes


@dataclass(frozen=True, slots=True)
class Released(Record):
    """The shares that a client releases for the recovery."""

    round: int
    client: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Recovered(Record):
    """The survivor list is closed; the recovery record."""

    round: int
    digest: bytes
    survivors: int


@dataclass(frozen=True, slots=True)
class Closed(Record):
    """The round ended with the next global model."""

    round: int
    model_digest: bytes
    metrics_digest: bytes


@dataclass(frozen=True, slots=True)
class Failed(Record):
    """The round ended without a model."""

    round: int
    reason: FailureReason
    evidence: bytes


@dataclass(frozen=True)
class _Event:
    """How one record is laid out in a log: Solidity types of the indexed parameters, which come first, and the rest."""

    record: type[Record]
    indexed: tuple[str, ...]
    plain: tuple[str, ...]
    topic: bytes


def _event(record: type[Record], parameters: str) -> tuple[bytes, _Event]:
    """``parameters`` as in the interface; ``i:`` marks indexed ones; FailureReason is a uint8 in a signature."""
    words = parameters.split()
    indexed = tuple(word[2:] for word in words if word.startswith("i:"))
    plain = tuple(word for word in words if not word.startswith("i:"))
    topic = keccak(text=f"{record.__name__}({','.join(indexed + plain)})")
    return topic, _Event(record, indexed, plain, topic)


REGISTRY_EVENTS = dict(
    [
        _event(Registered, "i:address i:uint32 uint256 uint256 bytes32 uint64 bytes"),
        _event(Approved, "i:address"),
        _event(Revoked, "i:address"),
        _event(VrfKeyRotated, "i:address i:uint32 uint256 uint256 uint64 bytes"),
        _event(MailboxKeyRotated, "i:address i:uint32 bytes32"),
        _event(AbsenceRecorded, "i:uint32 uint32"),
    ]
)
LEDGER_EVENTS = dict(
    [
        _event(RoundOpened, "i:uint64 bytes32 bytes32 uint32 uint64 uint64"),
        _event(SeedFixed, "i:uint64 bytes32 bytes32"),
        _event(Drawn, "i:uint64 i:uint32 uint32 bytes32 bytes32 bytes"),
        _event(DrawRejected, "i:uint64 i:address bytes4"),
        _event(Sealed, "i:uint64 uint32 bytes32"),
        _event(SealChunk, "i:uint64 uint32"),
        _event(Skipped, "i:uint64 uint32"),
        _event(Shared, "i:uint64 i:uint32 bytes32"),
        _event(Committed, "i:uint64 i:uint32 bytes32 bytes32"),
        _event(Released, "i:uint64 i:uint32 bytes32"),
        _event(Recovered, "i:uint64 bytes32 uint32"),
        _event(Closed, "i:uint64 bytes32 bytes32"),
        _event(Failed, "i:uint64 uint8 bytes32"),
    ]
)
_EVENTS = REGISTRY_EVENTS | LEDGER_EVENTS


def decode(log: Log) -> Record:
    """The record in a log of the registry or the ledger.

    Raises
    ------
    InvalidLog
        Unknown event, wrong number of topics, or bytes that are not the canonical encoding of the event's parameters.
    """
    event = _EVENTS.get(log.topics[0]) if log.topics else None
    if event is None:
        raise InvalidLog(log.at.block, log.at.log_index, "its first topic is no event of the contracts")
    try:
        values = _values(event, log)
        return event.record(log.at, *values)
    except (DecodingError, ValueError) as fault:
        reason = f"it is not a well-formed {event.record.__name__}: {fault}"
        raise InvalidLog(log.at.block, log.at.log_index, reason) from None


def decode_from(log: Log, registry: str, ledger: str) -> Record:
    """Like ``decode``, and the event must be one of the contract that emitted it. Addresses are checksummed."""
    own = {registry: REGISTRY_EVENTS, ledger: LEDGER_EVENTS}.get(log.address, {})
    if not log.topics or log.topics[0] not in own:
        raise InvalidLog(log.at.block, log.at.log_index, f"contract {log.address} emits no such event")
    return decode(log)


def _values(event: _Event, log: Log) -> list[Any]:
    if len(log.topics) != 1 + len(event.indexed):
        raise ValueError(f"{len(log.topics)} topics")
    if len(log.data) > MAX_DATA_BYTES:
        raise ValueError(f"{len(log.data)} bytes of data")
    head = [_decode_exactly((kind,), topic)[0] for kind, topic in zip(event.indexed, log.topics[1:], strict=True)]
    values = head + list(_decode_exactly(event.plain, log.data))
    kinds = event.indexed + event.plain
    return [_convert(event, kind, value) for kind, value in zip(kinds, values, strict=True)]


def _decode_exactly(kinds: tuple[str, ...], data: bytes) -> tuple[Any, ...]:
    """Decode, and refuse bytes that Solidity would not have written (padding, offsets, leftovers)."""
    values = abi_decode(kinds, data)
    if abi_encode(kinds, values) != data:
        raise ValueError("the encoding is not canonical")
    return values


def _convert(event: _Event, kind: str, value: Any) -> Any:
    if kind == "address":
        return to_checksum_address(value)
    if kind == "uint8":
        return FailureReason(value)
    if kind == "bytes" and len(value) != PROOF_BYTES:
        raise ValueError(f"a proof of {len(value)} bytes")
    return value


@functools.cache
def event_signatures() -> dict[str, tuple[str, ...]]:
    """Event name → parameter names in camelCase, as the ABI spells them, in the order of the record's fields."""
    return {
        event.record.__name__: tuple(_camel(item.name) for item in fields(event.record) if item.name != "at")
        for event in _EVENTS.values()
    }


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match.group(1).upper(), name)
