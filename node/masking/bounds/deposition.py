"""A member's words about others before the verdict: edges that partners contradict, uploads that it could not fetch.

An objection to an upload makes all who hold shares of its author fetch it before they vote, and decides nothing. A
revealed edge proves which of its two ends published a false commitment.

Blob: magic (4) ‖ binding (32: SHA-256 of mask graph, position and seed of S) ‖ positions whose upload is missing (count
4, then 4 each) ‖ for each revealed edge, ascending by partner: partner (4), shared point with its proof.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.bounds.knowledge import SharedPoint
from fedgrove.node.masking.bounds.vouching import Setting, Voucher
from fedgrove.node.masking.graph import MaskGraph, decode_positions, encode_positions
from fedgrove.node.masking.keys import Random, RoundSecrets, shared_mask_key
from fedgrove.node.masking.prg import MaskKey

Edge = tuple[int, int]
"""Two positions, the lower one first."""

_MAGIC = b"FGT1"
_REVEAL = b"fedgrove reveal 1"
_HEADER_BYTES = len(_MAGIC) + 32
_ENTRY_BYTES = 4 + SharedPoint.BYTES


@dataclass(frozen=True)
class Deposition:
    """A parsed blob.

    Attributes
    ----------
    position : int
        Its author.
    missing : tuple of int
        Members whose uploads it could not fetch, ascending: those that it is a witness of, and at most one other.
    reveals : mapping of int to SharedPoint
        By partner, ascending.
    """

    position: int
    missing: tuple[int, ...]
    reveals: Mapping[int, SharedPoint]

    @classmethod
    def parse(cls, data: bytes, setting: Setting, position: int) -> "Deposition":
        """Read a member's deposition; whether its reveals prove anything is for ``pair_keys``.

        Raises InvalidContent: of another round, member or S, not canonical, an edge that does not exist, or objections
        to more members than one that it is no witness of.
        """
        graph, client = setting.graph, setting.graph.client(position)
        if data[:_HEADER_BYTES] != _header(setting, position):
            raise InvalidContent(f"the deposition of client {client} belongs to another round, client or sketch")
        missing, rest = decode_positions(data[_HEADER_BYTES:], graph.n, f"the deposition of client {client}")
        if not may_miss(graph, position, missing):
            raise InvalidContent(
                f"client {client} objects to uploads of more than one member that it is not a witness of"
            )
        if len(rest) % _ENTRY_BYTES:
            raise InvalidContent(f"the deposition of client {client} has the wrong length")
        reveals: dict[int, SharedPoint] = {}
        for start in range(0, len(rest), _ENTRY_BYTES):
            partner = int.from_bytes(rest[start : start + 4])
            if partner not in setting.partners(position) or (reveals and partner <= max(reveals)):
                raise InvalidContent(f"client {client} reveals edges that do not exist, or out of order")
            reveals[partner] = SharedPoint.parse(rest[start + 4 : start + _ENTRY_BYTES])
        return cls(position, missing, reveals)

    def to_bytes(self, setting: Setting) -> bytes:
        """The canonical blob."""
        entries = (partner.to_bytes(4) + shared.to_bytes() for partner, shared in self.reveals.items())
        return _header(setting, self.position) + encode_positions(self.missing) + b"".join(entries)


def most_deposition_bytes(setting: Setting, position: int) -> int:
    """The longest blob of a member."""
    return _HEADER_BYTES + 4 + 4 * setting.graph.n + _ENTRY_BYTES * len(setting.partners(position))


def depose(
    setting: Setting,
    position: int,
    secrets: RoundSecrets,
    vouchers: Mapping[int, Voucher],
    missing: Collection[int],
    random: Random,
) -> Deposition | None:
    """What a member has to say, or None.

    It reveals the edges to partners whose valid vouchers contradict its own, and no others: a partner that has not
    proven that it knows the secret of its mask key may have made that key from another's, and what it shares with it
    would be what it shares with the other.

    Parameters
    ----------
    vouchers : mapping of int to Voucher
        Valid ones, by position, its own among them.
    missing : collection of int
        Members whose uploads it could not fetch, as ``may_miss`` allows.
    """
    reveals: dict[int, SharedPoint] = {}
    for edge in contradicted(setting, vouchers):
        if position in edge:
            partner = sum(edge) - position
            key, context = setting.graph.participants[partner].mask_key, _context(setting, position, partner)
            reveals[partner] = SharedPoint.prove(secrets.mask_secret, key, context, random)
    reveals = dict(sorted(reveals.items()))
    return Deposition(position, tuple(sorted(missing)), reveals) if missing or reveals else None


def may_miss(graph: MaskGraph, position: int, missing: Collection[int]) -> bool:
    """Whether a member may object to all of these: junk objections would cost all others a download."""
    others = [owner for owner in missing if owner >= graph.n or position not in graph.witnesses(owner)]
    return len(others) <= 1 and all(owner < graph.n for owner in others)


def contradicted(setting: Setting, vouchers: Mapping[int, Voucher]) -> tuple[Edge, ...]:
    """The edges to which both ends published a commitment, and not the same one, ascending.

    Parameters
    ----------
    vouchers : mapping of int to Voucher
        Valid ones, by position.
    """
    return tuple(
        (low, high)
        for low in sorted(vouchers)
        for high in setting.partners(low)
        if low < high and high in vouchers and vouchers[low].pairs[high] != vouchers[high].pairs[low]
    )


def pair_keys(setting: Setting, deposition: Deposition) -> dict[Edge, MaskKey]:
    """The keys of the masks whose edges a deposition proves."""
    graph, own = setting.graph, setting.graph.participants[deposition.position]
    found: dict[Edge, MaskKey] = {}
    for partner, shared in deposition.reveals.items():
        other = graph.participants[partner]
        if shared.verify(own.mask_key, other.mask_key, _context(setting, own.position, partner)):
            key = shared_mask_key(graph.context, shared.x, own.client, other.client)
            edge = min(own.position, partner), max(own.position, partner)
            found[edge] = MaskKey(key, False, edge)
    return found


def _header(setting: Setting, position: int) -> bytes:
    bound = setting.graph.digest + position.to_bytes(4) + setting.sketch.seed
    return _MAGIC + hashlib.sha256(b"fedgrove deposition 1" + bound).digest()


def _context(setting: Setting, position: int, partner: int) -> bytes:
    graph = setting.graph
    return _REVEAL + graph.digest + graph.client(position).to_bytes(4) + graph.client(partner).to_bytes(4)
