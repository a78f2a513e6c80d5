"""The events of both contracts, and how a log becomes a record. A log is hostile until it is decoded."""

from dataclasses import dataclass
from typing import Any

from eth_abi import encode as abi_encode
from eth_utils import keccak, to_checksum_address

from fedgrove.chain.errors import BadHistory
from fedgrove.chain.records import KINDS, Log, Phase, Record
from fedgrove.chain.records.abi import decode_abi, events
from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.errors import InvalidContent

PROOF_BYTES = 81
MAX_DATA_BYTES = 1 << 20  # above what the gas of a block pays for


@dataclass(frozen=True)
class Event:
    """How one record is laid out in a log: Solidity types of the indexed parameters, which come first, and the rest."""

    record: type[Record]
    indexed: tuple[str, ...]
    plain: tuple[str, ...]


def _event(record: type[Record]) -> tuple[bytes, Event]:
    """The topic and the layout of a record's event, from the ABI of the contract."""
    parameters = events(record.CONTRACT)[record.__name__]
    indexed = tuple(kind for _, kind, is_indexed in parameters if is_indexed)
    plain = tuple(kind for _, kind, is_indexed in parameters if not is_indexed)
    topic = keccak(text=f"{record.__name__}({','.join(indexed + plain)})")
    return topic, Event(record, indexed, plain)


EVENTS = dict(map(_event, KINDS))
"""All events, by their topics."""


def decode(log: Log) -> Record:
    """The record in a log of the registry or the ledger.

    Raises BadHistory: unknown event, wrong number of topics, or bytes that are not the canonical encoding of the
    event's parameters.
    """
    event = EVENTS.get(log.topics[0]) if log.topics else None
    if event is None:
        raise BadHistory(log.at.block, f"its log {log.at.log_index} is not an event of the contracts")
    try:
        return event.record(log.at, *_values(event, log))
    except InvalidContent as fault:
        what = f"its log {log.at.log_index} is not a well-formed {event.record.__name__}: {fault}"
        raise BadHistory(log.at.block, what) from None


def decode_from(log: Log, deployment: Deployment) -> Record:
    """Like ``decode``, and the event must be one of the deployment's contract that emitted it."""
    event = EVENTS.get(log.topics[0]) if log.topics else None
    if event is not None and deployment.contracts[event.record.CONTRACT] != log.address:
        what = f"contract {log.address} does not emit the event of its log {log.at.log_index}"
        raise BadHistory(log.at.block, what)
    return decode(log)


def _values(event: Event, log: Log) -> list[Any]:
    if len(log.topics) != 1 + len(event.indexed):
        raise InvalidContent(f"{len(log.topics)} topics")
    if len(log.data) > MAX_DATA_BYTES:
        raise InvalidContent(f"{len(log.data)} bytes of data")
    head = [_decode_exactly((kind,), topic)[0] for kind, topic in zip(event.indexed, log.topics[1:], strict=True)]
    values = head + list(_decode_exactly(event.plain, log.data))
    kinds = event.indexed + event.plain
    return [_convert(kind, value) for kind, value in zip(kinds, values, strict=True)]


def _decode_exactly(kinds: tuple[str, ...], data: bytes) -> tuple[Any, ...]:
    """Decode, and refuse bytes that Solidity would not have written (padding, offsets, leftovers)."""
    values = decode_abi(kinds, data)
    if abi_encode(kinds, values) != data:
        raise InvalidContent("the encoding is not canonical")
    return values


def _convert(kind: str, value: Any) -> Any:
    if kind == "address":
        return to_checksum_address(value)
    if kind == "address[]":
        return tuple(map(to_checksum_address, value))
    if kind == "uint8":
        if value > max(Phase):
            raise InvalidContent(f"a phase {value}")
        return Phase(value)
    if kind == "bytes" and len(value) != PROOF_BYTES:
        raise InvalidContent(f"a proof of {len(value)} bytes")
    return value
