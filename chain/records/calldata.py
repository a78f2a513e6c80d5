"""Calldata as Solidity reads it, however oddly it is encoded: offsets may go anywhere, and wrap around at 2²⁵⁶."""

WORD = 32
ARGUMENTS = 4
"""Where the arguments begin: behind the function's selector."""


def word(data: bytes, place: int) -> int:
    """The number at a place; what is beyond the calldata is zero."""
    place %= 1 << 256
    return int.from_bytes(data[place : place + WORD].ljust(WORD, b"\0"), "big")


def byte_string(data: bytes, place: int) -> bytes:
    """A byte string behind its length; cut where the calldata ends, which the contracts refuse."""
    start = (place + WORD) % (1 << 256)
    return data[start : start + word(data, place)]


def byte_argument(data: bytes, index: int) -> bytes:
    """The argument of a call at this index, which is a byte string."""
    return byte_string(data, ARGUMENTS + word(data, ARGUMENTS + WORD * index))


def list_length(data: bytes, index: int) -> int:
    """How many items the argument of a call at this index has, which is a list."""
    return word(data, ARGUMENTS + word(data, ARGUMENTS + WORD * index))


def list_argument(data: bytes, index: int) -> list[int]:
    """The words of the list that is the argument of a call at this index; cut where the calldata ends."""
    start, length = ARGUMENTS + word(data, ARGUMENTS + WORD * index), list_length(data, index)
    most = len(data) // WORD  # a longer one, which the contracts refuse, would end the process
    return [word(data, start + WORD * (1 + place)) for place in range(min(length, most))]
