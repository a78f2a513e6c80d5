"""A member's request to forget: the points, and the commitment to them on the ledger.

The ledger says how many points, and the digest of this blob. Which ones they are stays in the member's journal, next to
a salt, so that nobody can try out rows; whoever is shown the blob can check it against the ledger.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from fedgrove.common.wire import canonical_json, parse_json

_SALT_BYTES = 32
_MAX_ROWS = 1 << 24


class InvalidRequest(ValueError):
    """The bytes are not a request."""


@dataclass(frozen=True)
class Request:
    """One request.

    Attributes
    ----------
    rows : tuple of int
        Points by their rows, ascending; none: all of them, for good.
    salt : str
        32 random bytes, hexadecimal.
    """

    rows: tuple[int, ...]
    salt: str = field(repr=False)

    @classmethod
    def new(cls, rows: Iterable[int]) -> "Request":
        """A request with fresh salt."""
        return cls(tuple(sorted(set(rows))), os.urandom(_SALT_BYTES).hex())

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

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return canonical_json({"rows": self.rows, "salt": self.salt})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Request":
        """Parse what ``to_bytes`` wrote; InvalidRequest for anything else."""
        try:
            table = parse_json(data)
            request = cls(tuple(table["rows"]), table["salt"])
            sound = len(bytes.fromhex(request.salt)) == _SALT_BYTES and len(request.rows) <= _MAX_ROWS
            rows = all(type(row) is int and row >= 0 for row in request.rows)
            if not (sound and rows and list(request.rows) == sorted(set(request.rows)) and request.to_bytes() == data):
                raise ValueError
        except (ValueError, TypeError, KeyError):
            raise InvalidRequest("this is not a request to forget points") from None
        return request


def name_of(digest: bytes) -> str:
    """Under which the journal keeps the request that the ledger shows by its digest."""
    return f"request-{digest.hex()}"
