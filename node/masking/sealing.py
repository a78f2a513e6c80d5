"""Step share: a client's shares of its two secrets, each sealed for one holder and committed to.

Blob: magic (4) ‖ digest of the mask graph (32) ‖ position of the owner (4) ‖ for each holder, in the order of the
holders, a sealed message (126) and the commitments to both shares (32 each). Message: nonce (12) ‖ ChaCha20-Poly1305
(RFC 8439) of share of b (33) ‖ its salt (16) ‖ share of e (33) ‖ its salt (16).

A commitment is SHA-256 over round, owner, holder, kind, salt and share. A share that is released is checked against it:
a wrong one is thrown out by itself, and it is known whether its holder lied or its owner.
"""

import enum
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedgrove.common.errors import InvalidContent, Refused
from fedgrove.node.masking.graph import MaskGraph
from fedgrove.node.masking.keys import Random, RoundSecrets, agree, derive, is_low_order
from fedgrove.node.masking.shamir import PRIME, SHARE_BYTES, split

NONCE_BYTES = 12
SALT_BYTES = 16
OPENING_BYTES = SHARE_BYTES + SALT_BYTES
SEALED_BYTES = NONCE_BYTES + 2 * OPENING_BYTES + 16
COMMITMENT_BYTES = 32
ENTRY_BYTES = SEALED_BYTES + 2 * COMMITMENT_BYTES

_MAGIC = b"FGS2"
_HEADER_BYTES = len(_MAGIC) + 32 + 4
_SEAL = b"fedgrove sealed share 2"
_COMMITMENT = b"fedgrove share commitment 1"


class MaskingRefused(Refused):
    """Somebody would be exposed, or a client cannot be part of the sum; the message says why."""


class Kind(enum.IntEnum):
    """Which secret a share belongs to."""

    SEED = 1
    """b of a survivor: takes its self-mask off."""
    KEY = 2
    """e of a dropout: takes its partners' dangling pair masks off."""


@dataclass(frozen=True)
class Opening:
    """A share (element of the field) with the salt (16 bytes) under which its owner committed to it."""

    share: int = field(repr=False)
    salt: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """49 bytes: share (33), salt (16)."""
        return self.share.to_bytes(SHARE_BYTES) + self.salt

    @classmethod
    def from_bytes(cls, data: bytes) -> "Opening":
        """Read what ``to_bytes`` wrote; InvalidContent for anything else."""
        share = int.from_bytes(data[:SHARE_BYTES])
        if len(data) != OPENING_BYTES or share >= PRIME:
            raise InvalidContent("it is not a field element and a salt")
        return cls(share, data[SHARE_BYTES:])


SharePair = Mapping[Kind, Opening]
"""One holder's shares of one owner: of the self-mask seed b and of the mask secret e."""


@dataclass(frozen=True)
class SealedShares:
    """A parsed blob, nothing in it opened yet.

    Attributes
    ----------
    messages : mapping of int to bytes
        By holder's position.
    commitments : mapping of (int, Kind) to bytes
        By holder's position and kind of share, 32 bytes each.
    """

    messages: Mapping[int, bytes]
    commitments: Mapping[tuple[int, Kind], bytes]


def shares_bytes(graph: MaskGraph, owner: int) -> int:
    """Exact length of a client's blob of shares."""
    return _HEADER_BYTES + ENTRY_BYTES * len(graph.holders[owner])


def seal_shares(graph: MaskGraph, position: int, secrets: RoundSecrets, random: Random) -> bytes:
    """Split both secrets, and seal a pair of shares for each holder, with commitments to them.

    Returns
    -------
    bytes
        40 + 190·k for k holders; safe to publish.

    Raises
    ------
    MaskingRefused
        The secrets are not those of the keys at this position.
    """
    check_own(graph, position, secrets)
    holders, threshold = graph.holders[position], graph.threshold
    seeds = split(int.from_bytes(secrets.self_seed), threshold, len(holders), random)
    keys = split(int.from_bytes(secrets.mask_secret), threshold, len(holders), random)
    entries: list[bytes] = []
    for holder, seed, key in zip(holders, seeds, keys, strict=True):
        pair = {Kind.SEED: Opening(seed, random(SALT_BYTES)), Kind.KEY: Opening(key, random(SALT_BYTES))}
        entries.append(_seal(graph, position, holder, secrets, pair, random))
        entries += [commitment(graph, position, holder, kind, opening) for kind, opening in pair.items()]
    return _header(graph, position) + b"".join(entries)


def parse_shares(data: bytes, graph: MaskGraph, owner: int) -> SealedShares:
    """Cut a blob into its sealed messages and commitments, by holder, without opening any.

    Raises InvalidContent: the blob is not of this graph and owner, or not of the exact length.
    """
    expected = shares_bytes(graph, owner)
    if len(data) != expected:
        raise InvalidContent(f"the shares of client {graph.client(owner)} have {len(data)} bytes instead of {expected}")
    if data[:_HEADER_BYTES] != _header(graph, owner):
        raise InvalidContent(f"the shares of client {graph.client(owner)} belong to another round or client")
    messages: dict[int, bytes] = {}
    commitments: dict[tuple[int, Kind], bytes] = {}
    for holder, start in zip(graph.holders[owner], range(_HEADER_BYTES, expected, ENTRY_BYTES), strict=True):
        middle, end = start + SEALED_BYTES, start + ENTRY_BYTES
        messages[holder] = data[start:middle]
        commitments[holder, Kind.SEED] = data[middle : middle + COMMITMENT_BYTES]
        commitments[holder, Kind.KEY] = data[middle + COMMITMENT_BYTES : end]
    return SealedShares(messages, commitments)


def open_shares(
    graph: MaskGraph, owner: int, holder: int, secrets: RoundSecrets, sealed: SealedShares
) -> dict[Kind, Opening]:
    """Open the sealed message from ``owner`` to ``holder`` with the holder's secrets.

    Raises InvalidContent: the message was not sealed by this owner for this holder in this round, or does not hold what
    the owner committed to.
    """
    who, message = f"the share of client {graph.client(owner)}", sealed.messages[holder]
    nonce, body = message[:NONCE_BYTES], message[NONCE_BYTES:]
    try:
        key = _key(graph, owner, holder, secrets, graph.participants[owner].seal_key)
        plain = ChaCha20Poly1305(key).decrypt(nonce, body, _associated(graph, owner, holder))
        halves = (plain[:OPENING_BYTES], plain[OPENING_BYTES:])
        pair = {kind: Opening.from_bytes(half) for kind, half in zip(Kind, halves, strict=True)}
    except (InvalidTag, ValueError, InvalidContent):
        raise InvalidContent(f"{who} cannot be opened, or is not a field element") from None
    for kind, opening in pair.items():
        if not is_committed(graph, owner, holder, kind, opening, sealed):
            raise InvalidContent(f"{who} does not match its commitment")
    return pair


def commitment(graph: MaskGraph, owner: int, holder: int, kind: Kind, opening: Opening) -> bytes:
    """The owner's commitment to one share, 32 bytes."""
    state = hashlib.sha256(_COMMITMENT + _associated(graph, owner, holder) + kind.to_bytes(1))
    state.update(opening.salt + opening.share.to_bytes(SHARE_BYTES))
    return state.digest()


def is_committed(graph: MaskGraph, owner: int, holder: int, kind: Kind, opening: Opening, sealed: SealedShares) -> bool:
    """Whether a share is the one that its owner committed to."""
    return commitment(graph, owner, holder, kind, opening) == sealed.commitments[holder, kind]


def check_own(graph: MaskGraph, position: int, secrets: RoundSecrets) -> None:
    """Refuse to act with secrets that are not those behind the ledger's keys."""
    own = graph.participants[position]
    if not hmac.compare_digest(secrets.mask_key + secrets.seal_key, own.mask_key + own.seal_key):
        raise MaskingRefused(f"the round's secrets do not match the keys that client {own.client} drew with")


def _seal(graph: MaskGraph, owner: int, holder: int, secrets: RoundSecrets, pair: SharePair, random: Random) -> bytes:
    seal_key = graph.participants[holder].seal_key
    if is_low_order(seal_key):
        return random(SEALED_BYTES)  # everybody could open a message for such a key: this holder goes without
    nonce = random(NONCE_BYTES)
    plain = pair[Kind.SEED].to_bytes() + pair[Kind.KEY].to_bytes()
    cipher = ChaCha20Poly1305(_key(graph, owner, holder, secrets, seal_key))
    return nonce + cipher.encrypt(nonce, plain, _associated(graph, owner, holder))


def _key(graph: MaskGraph, owner: int, holder: int, secrets: RoundSecrets, public: bytes) -> bytes:
    """One key per direction, so that no message can be sent back to its writer."""
    return derive(agree(secrets.seal_secret, public), _SEAL + _associated(graph, owner, holder))


def _associated(graph: MaskGraph, owner: int, holder: int) -> bytes:
    """Associated data: chain id, contract, round, from, to."""
    return graph.context.to_bytes() + graph.client(owner).to_bytes(4) + graph.client(holder).to_bytes(4)


def _header(graph: MaskGraph, owner: int) -> bytes:
    return _MAGIC + graph.digest + owner.to_bytes(4)
