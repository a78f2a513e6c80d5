"""The frame of all messages of a private comparison. A message that is not exactly what it should be is refused.

Message: kind (4) ‖ session (32) ‖ transcript (32) ‖ sender (4) ‖ partner (4) ‖ count (4) ‖ items, all of one width.
The session names the clustering that the comparison is part of; the transcript is the digest of what was answered, zero
where nothing was. Integers are big-endian. A message for all partners has the partner 2³² − 1.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from fedgrove.common.errors import InvalidContent
from fedgrove.node.methods.procfl.sets import MAX_ELEMENTS

SESSION_BYTES = 32
TAG_BYTES = 16
"""Of a hashed element: among 2¹⁷ tags two that are equal by chance have the probability 2⁻⁹⁵."""

EVERYBODY = (1 << 32) - 1
NOTHING = bytes(32)

_HEADER_BYTES = 4 + SESSION_BYTES + 32 + 3 * 4


@dataclass(frozen=True)
class Header:
    """Header of a message, which its reader expects.

    Attributes
    ----------
    kind : bytes
        4 bytes.
    session : bytes
        32 bytes.
    sender, partner : int
        Clients, from 0.
    transcript : bytes
        32 bytes.
    """

    kind: bytes
    session: bytes
    sender: int
    partner: int = EVERYBODY
    transcript: bytes = NOTHING

    def to_bytes(self) -> bytes:
        """76 bytes; the count follows."""
        return self.kind + self.session + self.transcript + self.sender.to_bytes(4) + self.partner.to_bytes(4)


def message_bytes(count: int, width: int) -> int:
    """Length of a message with this many items."""
    return _HEADER_BYTES + count * width


def write(header: Header, items: Sequence[bytes]) -> bytes:
    """A message of items of one width."""
    return header.to_bytes() + len(items).to_bytes(4) + b"".join(items)


def read(data: bytes, header: Header, width: int) -> list[bytes]:
    """The items of a message, each there once.

    Raises InvalidContent: another header, an impossible count, a wrong length, or the same item twice.
    """
    count = int.from_bytes(data[_HEADER_BYTES - 4 : _HEADER_BYTES])
    if data[: _HEADER_BYTES - 4] != header.to_bytes():
        raise InvalidContent(
            f"the message is not from client {header.sender}, or has another kind, session or transcript"
        )
    if not 1 <= count <= MAX_ELEMENTS or len(data) != message_bytes(count, width):
        raise InvalidContent(f"the message of client {header.sender} has {len(data)} bytes for {count} items")
    items = [data[start : start + width] for start in range(_HEADER_BYTES, len(data), width)]
    if len(set(items)) != count:
        raise InvalidContent(f"the message of client {header.sender} contains an item twice")
    return items


def read_sorted(data: bytes, header: Header, width: int) -> list[bytes]:
    """As ``read``, for items whose order must tell nothing: ascending."""
    items = read(data, header, width)
    if items != sorted(items):
        raise InvalidContent(f"the items of client {header.sender} are not in ascending order")
    return items


def digest(*messages: bytes) -> bytes:
    """SHA-256 over the digests of messages."""
    return hashlib.sha256(b"".join(hashlib.sha256(message).digest() for message in messages)).digest()


class Answered:
    """The answered message of each partner: only one, because each answer allows a guess at the client's set."""

    def __init__(self) -> None:
        self._digests: dict[int, bytes] = {}

    def admit(self, partner: int, message: bytes) -> None:
        """Let the first message of a partner pass, and the same one again.

        Raises InvalidContent: the partner sent another one before.
        """
        found = digest(message)
        if not hmac.compare_digest(self._digests.setdefault(partner, found), found):
            raise InvalidContent(f"client {partner} asked twice in one session, about different sets")
