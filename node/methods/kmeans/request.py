"""A member's request to forget: the points, and the commitment to them on the ledger.

The ledger says how many points, and the digest of this blob. Which ones they are stays in the member's journal, next to
a salt, so that nobody can try out rows; whoever is shown the blob can check it against the ledger.
"""

import hashlib
import os
from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated, ClassVar

from msgspec import Meta

from fedgrove.common.wire import Digest, Table

_MAX_ROWS = 1 << 24


class Request(Table, frozen=True):
    """One request.

    Attributes
    ----------
    rows : tuple of int
        Points by their rows, ascending; none: all of them, for good.
    salt : str
        32 random bytes, hexadecimal.
    """

    max_bytes: ClassVar[int] = 1 << 28
    salt: Digest
    rows: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(max_length=_MAX_ROWS)] = ()

    def __post_init__(self) -> None:
        if any(later <= earlier for earlier, later in pairwise(self.rows)):
            raise ValueError("its rows are not in ascending order")

    def __repr__(self) -> str:
        return f"Request({self.points} points)"  # the salt keeps the rows secret

    @classmethod
    def new(cls, rows: Iterable[int]) -> "Request":
        """A request with fresh salt."""
        return cls(os.urandom(32).hex(), tuple(sorted(set(rows))))

    @property
    def points(self) -> int:
        """How many points, as on the ledger: 0 means all."""
        return len(self.rows)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.to_bytes()).digest()

    @property
    def name(self) -> str:
        """Under which the journal keeps it."""
        return name_of(self.digest)


def name_of(digest: bytes) -> str:
    """Under which the journal keeps the request that the ledger shows by its digest."""
    return f"request-{digest.hex()}"
