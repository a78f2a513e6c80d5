"""Blobs of revealed points: magic (4) ‖ for each, ascending by partner: partner's position (4) ‖ proven point."""

from collections.abc import Sequence

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import ContentReader, Malformed, TooLarge
from fedgrove.node.masking.bounds.knowledge import SHARED_POINT_BYTES
from fedgrove.node.masking.bounds.verdict import Reveal

_MAGIC = b"FGP1"
_EACH = 4 + SHARED_POINT_BYTES


def most_reveal_bytes(partners: int) -> int:
    """The longest blob of a member with so many partners."""
    return len(_MAGIC) + _EACH * partners


def reveal_bytes(reveals: Sequence[Reveal]) -> bytes:
    """The canonical blob of what one member reveals, ascending by partner."""
    return _MAGIC + b"".join(each.partner.to_bytes(4) + each.proof for each in reveals)


def parse_reveals(data: bytes, position: int) -> list[Reveal]:
    """Read what a member reveals; whether it proves anything is for the verdict.

    Raises InvalidContent: not in the canonical form.
    """
    body = data[len(_MAGIC) :]
    if data[: len(_MAGIC)] != _MAGIC or not body or len(body) % _EACH:
        raise InvalidContent("the revealed points have the wrong length")
    parts = [body[start : start + _EACH] for start in range(0, len(body), _EACH)]
    found = [Reveal(position, int.from_bytes(part[:4]), part[4:]) for part in parts]
    partners = [each.partner for each in found]
    if partners != sorted(set(partners)):
        raise InvalidContent("the revealed points are not in order, each once")
    return found


def read_reveals(store: ContentReader, digest: bytes, most: int, position: int) -> list[Reveal]:
    """What a member revealed; nothing where that is no such blob.

    Raises StoreError: it cannot be had, and who is to be summed may depend on it.
    """
    try:
        return parse_reveals(store.fetch(digest, most), position)
    except (TooLarge, Malformed, InvalidContent):
        return []
