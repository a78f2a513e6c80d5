"""RLP as bytes: the library's ``encode`` has no annotations."""

from typing import Any, cast

import rlp


def rlp_bytes(item: Any) -> bytes:
    """RLP of bytes, integers, lists of them, and objects that say how they are serialised."""
    return cast(Any, rlp).encode(item)
