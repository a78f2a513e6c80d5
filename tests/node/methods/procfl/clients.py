"""Two clients with small sets, for the tests of the protocols."""

import numpy as np

from fedgrove.node.methods.procfl.sets import elements

SESSION = bytes(range(32))
LEFT = np.array([3, 0, 5])
RIGHT = np.array([1, 4, 9])
COMMON = 1 + 0 + 5


def seeded(seed: int):
    return np.random.default_rng(seed).bytes


def chi(counts: np.ndarray) -> np.ndarray:
    return elements(counts)


def with_items(message: bytes, header_bytes: int, items: list[bytes]) -> bytes:
    """A message with other items than it had, and their count."""
    return message[: header_bytes - 4] + len(items).to_bytes(4) + b"".join(items)


def items_of(message: bytes, header_bytes: int, width: int) -> list[bytes]:
    return [message[start : start + width] for start in range(header_bytes, len(message), width)]
