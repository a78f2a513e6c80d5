"""Calls to the shipped contracts by name: arguments to calldata, results to values, from their ABIs."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eth_abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_utils import keccak

from chain.access import Network
from chain.errors import ConnectionFailed, artifact


@dataclass(frozen=True)
class Function:
    """One function of an ABI: 4-byte selector, types of its inputs and outputs."""

    selector: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Contract:
    """A shipped contract at an address; ``name`` says which."""

    network: Network
    name: str
    address: str

    def data(self, function: str, *arguments: Any) -> bytes:
        """Calldata of a call."""
        found = functions(self.name)[function]
        return found.selector + encode(found.inputs, arguments)

    def call(self, function: str, *arguments: Any, block: int | None = None) -> Any:
        """Result of a view: the value, or a tuple where there are several. Structs come as tuples.

        Raises ContractRevert, and ConnectionFailed when no such contract answers at the address.
        """
        answer = self.network.call(self.address, self.data(function, *arguments), block=block)
        try:
            values = decode(functions(self.name)[function].outputs, answer)
        except DecodingError:
            raise ConnectionFailed(
                f"No fedgrove {self.name} answers at {self.address}; check the address and the chain."
            ) from None
        return values[0] if len(values) == 1 else values


@functools.cache
def functions(contract: str) -> dict[str, Function]:
    """The functions of a shipped contract by name; none of them is overloaded."""
    found = {}
    for item in artifact(contract)["abi"]:
        if item["type"] == "function":
            inputs, outputs = _types(item["inputs"]), _types(item["outputs"])
            selector = keccak(text=f"{item['name']}({','.join(inputs)})")[:4]
            found[item["name"]] = Function(selector, inputs, outputs)
    return found


def creation(contract: str, arguments: Sequence[Any]) -> bytes:
    """Data of the transaction that creates a shipped contract."""
    shipped = artifact(contract)
    inputs = next((item["inputs"] for item in shipped["abi"] if item["type"] == "constructor"), [])
    return bytes.fromhex(shipped["bytecode"][2:]) + encode(_types(inputs), list(arguments))


def _types(parameters: Sequence[dict]) -> tuple[str, ...]:
    return tuple(_type(parameter) for parameter in parameters)


def _type(parameter: dict) -> str:
    if not parameter["type"].startswith("tuple"):
        return parameter["type"]
    return f"({','.join(_types(parameter['components']))}){parameter['type'].removeprefix('tuple')}"
