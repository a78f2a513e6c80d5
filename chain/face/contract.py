"""Calls to the shipped contracts by name: arguments to calldata, results to values, from their ABIs."""

from dataclasses import dataclass
from typing import Any

from eth_abi import encode

from fedgrove.chain.errors import ConnectionFailed
from fedgrove.chain.network.access import Network
from fedgrove.chain.records.abi import decode_abi, functions
from fedgrove.common.errors import InvalidContent


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
            values = decode_abi(functions(self.name)[function].outputs, answer)
        except InvalidContent:
            raise ConnectionFailed(
                f"No fedgrove {self.name} answers at {self.address}; check the address and the chain."
            ) from None
        return values[0] if len(values) == 1 else values
