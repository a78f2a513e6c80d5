"""JSON-RPC's hexadecimal strings, parsed with bounds."""

from typing import Any

from fedgrove.common.errors import InvalidContent

MAX_BYTES = 1 << 20


def to_int(value: Any) -> int:
    """A quantity such as 0x1a, up to 32 bytes."""
    if not isinstance(value, str) or not value.startswith("0x") or not 3 <= len(value) <= 66:
        raise InvalidContent("not a quantity")
    return int(value[2:], 16)


def to_bytes(value: Any, size: int | None = None, most: int = MAX_BYTES) -> bytes:
    """Data such as 0x00ff, of exactly ``size`` bytes where given, of at most ``most`` otherwise."""
    if not isinstance(value, str) or not value.startswith("0x") or len(value) > 2 + 2 * most:
        raise InvalidContent("not data")
    data = bytes.fromhex(value[2:])
    if size is not None and len(data) != size:
        raise InvalidContent(f"{len(data)} bytes instead of {size}")
    return data
