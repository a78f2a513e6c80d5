"""Step vouch: a member's proof that its hidden update is small, tied to its upload through the masks' own sketches.

A member uploads yᵢ = qᵢ + PRG(bᵢ) + Σ σᵢⱼ·PRG(sᵢⱼ), over partners j that shared. With the sketch S of the round it
publishes ŷᵢ = S·yᵢ, a commitment Vᵢ to vᵢ = S·qᵢ, and the commitments Bᵢ and Wᵢⱼ to the sketches of its masks. Then

    Cᵢ = 2⁻³²·(Vᵢ + Bᵢ + Σ σᵢⱼ·Wᵢⱼ − Com(ŷᵢ; 0))

commits to carries, integers far below the order of the group over 2³², exactly if vᵢ ≡ ŷᵢ − βᵢ − Σ σᵢⱼ·wᵢⱼ (mod 2³²)
for the openings. The proof shows that these are integers of a few bits and that vᵢ is within its bounds. It says
nothing of Bᵢ and Wᵢⱼ one by one: ``verdict``, ``equation`` and ``expulsion`` do.

Voucher: magic (4) ‖ ŷ (4 each, little-endian) ‖ V (33) ‖ B (33) ‖ W (33 each, ascending by partner) ‖ proof of
knowledge of the mask key's secret ‖ proof of the bounds.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fedgrove.common.curve import ORDER, POINT_BYTES, Point, sum_of
from fedgrove.common.errors import InvalidContent
from fedgrove.node.masking.bounds.edges import sketched_masks
from fedgrove.node.masking.bounds.equation import OuterMasks, Vouched
from fedgrove.node.masking.bounds.group import commit
from fedgrove.node.masking.bounds.knowledge import KnownSecret
from fedgrove.node.masking.bounds.proof import Statement, proof_bytes, prove, verify
from fedgrove.node.masking.bounds.sketch import Sketch
from fedgrove.node.masking.client import mask_keys
from fedgrove.node.masking.graph import MaskGraph, encode_positions
from fedgrove.node.masking.keys import Random, RoundSecrets
from fedgrove.node.masking.prg import MaskKey
from fedgrove.node.masking.ring import WORD
from fedgrove.node.masking.sealing import MaskingRefused

_MAGIC = b"FGU1"
_CONTEXT = b"fedgrove voucher 1"
_WRAP = 1 << 32
_UNSHIFT = pow(_WRAP, -1, ORDER)
_BLINDING_BYTES = 48  # 128 bits more than the order has, so that the remainder is uniform


@dataclass(frozen=True)
class Bounds:
    """What a member has to prove of its update.

    Attributes
    ----------
    norm_squared : int
        τ²: the most that the squares of S·q may add up to (``sketch.norm_limit``).
    metrics : tuple of int
        The most that each metric word may be, below 2³².
    """

    norm_squared: int
    metrics: tuple[int, ...] = ()


@dataclass(frozen=True)
class Setting:
    """The public facts under which the vouchers of a round are made and checked.

    Attributes
    ----------
    graph : MaskGraph
    sharers : frozenset of int
        Positions that shared; edges to others do not exist.
    sketch : Sketch
        S; its seed stands for the block that fixed it.
    uploads : mapping of int to bytes
        SHA-256 of yᵢ by position, from the ledger's commit list.
    bounds : mapping of int to Bounds
        By position, of all that committed.
    """

    graph: MaskGraph
    sharers: frozenset[int]
    sketch: Sketch
    uploads: Mapping[int, bytes]
    bounds: Mapping[int, Bounds]

    def partners(self, position: int) -> tuple[int, ...]:
        """Whom a member masks with, ascending."""
        return tuple(partner for partner in self.graph.neighbours[position] if partner in self.sharers)


@dataclass(frozen=True)
class Voucher(Vouched):
    """A parsed voucher.

    Attributes
    ----------
    bounded : Point
        V: commitment to the sketch of the bare update.
    knowledge : bytes
        Proof that the member knows the secret of its mask key: of a key made from another's, a shared point would be
        one of the other's.
    proof : bytes
        That V and C open to integers within the bounds.

    Notes
    -----
    The other attributes are those of ``Vouched``; partners are in ascending order.
    """

    bounded: Point
    knowledge: bytes = field(repr=False)
    proof: bytes = field(repr=False)

    @classmethod
    def parse(cls, data: bytes, setting: Setting, position: int) -> "Voucher":
        """Read a member's voucher; whether its proofs hold is for ``check_vouchers``.

        Raises InvalidContent: not exactly as long as it must be, or with bytes that are no point.
        """
        expected = voucher_bytes(setting, position)
        if len(data) != expected or data[: len(_MAGIC)] != _MAGIC:
            raise InvalidContent(
                f"the voucher of client {setting.graph.client(position)} is not one of {expected} bytes"
            )
        points_at = len(_MAGIC) + setting.sketch.width * WORD.itemsize
        partners = setting.partners(position)
        stop = points_at + (2 + len(partners)) * POINT_BYTES
        points = [Point.parse(data[at : at + POINT_BYTES]) for at in range(points_at, stop, POINT_BYTES)]
        return cls(
            upload=np.frombuffer(data[len(_MAGIC) : points_at], WORD),
            own=points[1],
            pairs=dict(zip(partners, points[2:], strict=True)),
            bounded=points[0],
            knowledge=data[stop : stop + KnownSecret.BYTES],
            proof=data[stop + KnownSecret.BYTES :],
        )

    def body(self) -> bytes:
        """All but the proofs, which are bound to it."""
        points = (self.bounded, self.own, *self.pairs.values())
        return _MAGIC + self.upload.tobytes() + b"".join(point.to_bytes() for point in points)

    def to_bytes(self) -> bytes:
        """The canonical blob."""
        return self.body() + self.knowledge + self.proof


def voucher_bytes(setting: Setting, position: int) -> int:
    """How long the voucher of a member is."""
    points = 2 + len(setting.partners(position))
    body = len(_MAGIC) + setting.sketch.width * WORD.itemsize + points * POINT_BYTES
    return body + KnownSecret.BYTES + proof_bytes(setting.sketch.words, setting.sketch.metrics)


def vouch(setting: Setting, position: int, secrets: RoundSecrets, masked: np.ndarray, random: Random) -> bytes:
    """Make a member's voucher.

    Parameters
    ----------
    masked : uint32 array of shape (d + μ,), little-endian
        y: the upload whose digest the member committed to.
    random : Random
        ``os.urandom`` in use. Keep the blob before it is published: a second one must not be made.

    Returns
    -------
    bytes
        As long as ``voucher_bytes`` says.

    Raises
    ------
    MaskingRefused
        The update is above its bounds, or the client did not share.
    """
    keys = mask_keys(setting.graph, position, secrets, setting.sharers)
    masks = sketched_masks(setting.sketch, keys)
    laid = OuterMasks.of(keys, masks)
    upload = setting.sketch.of(masked)
    values, carries = _opened(setting, position, upload, laid.values)
    blinding = int.from_bytes(random(_BLINDING_BYTES)) % ORDER
    bare = Voucher(
        upload=upload,
        own=masks[0].commitment,
        pairs={_partner(key): mask.commitment for key, mask in zip(keys[1:], masks[1:], strict=True)},
        bounded=commit(values, blinding),
        knowledge=b"",
        proof=b"",
    )
    carry_blinding = (blinding + laid.blinding) * _UNSHIFT % ORDER
    context, statement = context_of(setting, position, bare), statement_of(setting, position, bare)
    return replace(
        bare,
        knowledge=KnownSecret.prove(secrets.mask_secret, context, random).to_bytes(),
        proof=prove(statement, values, blinding, carries, carry_blinding, random),
    ).to_bytes()


def statement_of(setting: Setting, position: int, voucher: Voucher) -> Statement:
    """What the voucher of a member must prove."""
    bounds = setting.bounds[position]
    signed = (edge if position < partner else -edge for partner, edge in voucher.pairs.items())
    public = commit(voucher.upload, 0)
    shifted = sum_of((voucher.bounded, voucher.own, *signed, -public))
    return Statement(
        context=context_of(setting, position, voucher),
        bounded=voucher.bounded,
        carry=shifted * _UNSHIFT,
        tau_squared=bounds.norm_squared,
        metric_limits=bounds.metrics,
        sketch_words=setting.sketch.words,
    )


def context_of(setting: Setting, position: int, voucher: Voucher) -> bytes:
    """Round, mask graph, S, member, upload and all that the voucher says: its proofs fit nothing else."""
    graph = setting.graph
    parts = (
        _CONTEXT,
        graph.context.to_bytes(),
        graph.digest,
        setting.sketch.seed,
        graph.client(position).to_bytes(4),
        setting.uploads[position],
        hashlib.sha256(encode_positions(setting.partners(position))).digest(),
        hashlib.sha256(voucher.body()).digest(),
    )
    return b"".join(parts)


def check_vouchers(setting: Setting, vouchers: Mapping[int, Voucher]) -> frozenset[int]:
    """The positions whose vouchers prove nothing: one batch decides for all where none fails.

    Parameters
    ----------
    vouchers : mapping of int to Voucher
        By position.
    """
    knowing = {position: voucher for position, voucher in vouchers.items() if _knows(setting, position, voucher)}
    statements = [statement_of(setting, position, voucher) for position, voucher in knowing.items()]
    held = verify(statements, [voucher.proof for voucher in knowing.values()])
    valid = {position for position, holds in zip(knowing, held, strict=True) if holds}
    return frozenset(vouchers.keys() - valid)


def valid_vouchers(setting: Setting, blobs: Mapping[int, bytes]) -> dict[int, Voucher]:
    """Those of the vouchers that parse and prove what they must, by position."""
    parsed: dict[int, Voucher] = {}
    for position, data in blobs.items():
        try:
            parsed[position] = Voucher.parse(data, setting, position)
        except InvalidContent:
            continue
    failing = check_vouchers(setting, parsed)
    return {position: voucher for position, voucher in parsed.items() if position not in failing}


def _knows(setting: Setting, position: int, voucher: Voucher) -> bool:
    key = setting.graph.participants[position].mask_key
    try:
        proof = KnownSecret.parse(voucher.knowledge)
    except InvalidContent:
        return False
    return proof.verify(key, context_of(setting, position, voucher))


def _opened(setting: Setting, position: int, upload: np.ndarray, laid: np.ndarray) -> tuple[list[int], list[int]]:
    """v, within its bounds, and the carries c, such that v + laid − ŷ = 2³²·c."""
    bounds, words, client = setting.bounds[position], setting.sketch.words, setting.graph.client(position)
    carries: list[int] = []
    values: list[int] = []
    for place, (public, mask) in enumerate(zip(upload.tolist(), laid.tolist(), strict=True)):
        value = (public - mask) % _WRAP
        if place < words and value >= _WRAP // 2:
            value -= _WRAP
        values.append(value)
        carries.append((value + mask - public) // _WRAP)
    if sum(value * value for value in values[:words]) > bounds.norm_squared:
        raise MaskingRefused(f"the update of client {client} is larger than its limit; clip it before it is masked")
    if any(value > most for value, most in zip(values[words:], bounds.metrics, strict=True)):
        raise MaskingRefused(f"a metric of client {client} is larger than its limit")
    return values, carries


def _partner(key: MaskKey) -> int:
    if key.pair is None:
        raise ValueError("a self-mask has no partner")
    return key.pair[1]
