"""Solidity's ABI: the shipped contracts' functions, arguments to calldata, results and events to values."""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eth_abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_utils import keccak

from fedgrove.chain.errors import artifact
from fedgrove.common.errors import InvalidContent


@dataclass(frozen=True)
class Function:
    """One function of an ABI: 4-byte selector, names (in snake_case) and types of its inputs, types of its outputs."""

    selector: bytes
    names: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def decode_abi(kinds: Sequence[str], data: bytes) -> tuple[Any, ...]:
    """The values in ABI-encoded bytes; InvalidContent for bytes that encode none.

    eth-abi follows offsets and lengths of up to 2²⁵⁶ − 1, at which Python's streams raise errors of other kinds.
    """
    try:
        return decode(list(kinds), data)
    except (DecodingError, OverflowError, MemoryError, RecursionError, TypeError) as fault:
        raise InvalidContent(f"the bytes are not a valid ABI encoding ({type(fault).__name__})") from None


@functools.cache
def functions(contract: str) -> dict[str, Function]:
    """The functions of a shipped contract by name; none of them is overloaded."""
    found: dict[str, Function] = {}
    for item in artifact(contract)["abi"]:
        if item["type"] == "function":
            inputs, outputs = _types(item["inputs"]), _types(item["outputs"])
            selector = keccak(text=f"{item['name']}({','.join(inputs)})")[:4]
            found[item["name"]] = Function(
                selector, tuple(snake_case(each["name"]) for each in item["inputs"]), inputs, outputs
            )
    return found


@functools.cache
def events(contract: str) -> dict[str, list[tuple[str, str, bool]]]:
    """The events of a shipped contract: name (in snake_case) and type of each parameter, and whether it is indexed."""
    return {
        item["name"]: [(snake_case(each["name"]), each["type"], each["indexed"]) for each in item["inputs"]]
        for item in artifact(contract)["abi"]
        if item["type"] == "event"
    }


def creation(contract: str, arguments: Sequence[Any]) -> bytes:
    """Data of the transaction that creates a shipped contract."""
    return bytes.fromhex(artifact(contract)["bytecode"][2:]) + encode(_constructor(contract), list(arguments))


def created_with(contract: str, data: bytes) -> tuple[Any, ...]:
    """The arguments in the data of a transaction that creates a shipped contract; InvalidContent for any other data."""
    code, kinds = bytes.fromhex(artifact(contract)["bytecode"][2:]), _constructor(contract)
    if not data.startswith(code):
        raise InvalidContent(f"it does not create the {contract} of this version")
    return decode_abi(kinds, data[len(code) :])


def _constructor(contract: str) -> tuple[str, ...]:
    """Types of the arguments of a contract's constructor."""
    items = artifact(contract)["abi"]
    return next((_types(item["inputs"]) for item in items if item["type"] == "constructor"), ())


def snake_case(name: str) -> str:
    """A name of Solidity as Python has it."""
    return re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name)


def _types(parameters: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(_type(parameter) for parameter in parameters)


def _type(parameter: Mapping[str, Any]) -> str:
    if not parameter["type"].startswith("tuple"):
        return parameter["type"]
    return f"({','.join(_types(parameter['components']))}){parameter['type'].removeprefix('tuple')}"
