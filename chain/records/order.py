"""Records of the order of those that drew."""

from types import MappingProxyType

from fedgrove.chain.crypto import tree
from fedgrove.chain.records.base import Call, Phase, RoundRecord, record
from fedgrove.chain.records.calldata import byte_argument

__all__ = ["SealChunk", "Sealed", "Skipped"]


@record
class Sealed(RoundRecord):
    """The order of all drawn clients is fixed; ``order_seed`` is what it is sorted with (``tree.key``)."""

    CALLS = ("seal", "sealChunk")
    FIELD = "order"
    TITLE = "Order sealed"
    PHASE = Phase.SEAL
    COORDINATES = True

    drawn: int
    order_seed: bytes
    order_root: bytes

    def follows_from(self, call: Call) -> bool:
        return self.is_argument_of(call) and (call.name != "seal" or self._orders(call.data))

    def _orders(self, data: bytes) -> bool:
        """Whether the calldata of ``seal`` gives the order: tickets of 16 bytes, and a permutation of them."""
        packed, permutation = byte_argument(data, 1), byte_argument(data, 2)
        tickets = [int.from_bytes(packed[start : start + 16], "big") for start in range(0, len(packed), 16)]
        indices = [int.from_bytes(permutation[start : start + 2], "big") for start in range(0, len(permutation), 2)]
        if not len(tickets) == len(indices) == self.drawn or any(index >= len(tickets) for index in indices):
            return False
        return tree.order_root([tickets[index] for index in indices]) == self.order_root


@record
class SealChunk(RoundRecord):
    """A sender has placed this many tickets of a large round so far."""

    CALLS = ("sealChunk",)
    LEAVES = MappingProxyType({"sealChunk": "SealChunk (Sealed )?"})
    FIELD = "order"
    TITLE = "Part of the order"
    PHASE = Phase.SEAL
    COORDINATES = True

    placed: int


@record
class Skipped(RoundRecord):
    """Fewer clients than the quorum were drawn."""

    CALLS = ("skip",)
    GAS = 120_000
    FIELD = "skipped"
    TITLE = "Round skipped"
    PHASE = Phase.SEAL
    COORDINATES = True

    drawn: int
