"""Step share: a client's shares of its two secrets, each sealed for one holder (spec 02, step 3).

Blob: magic (4) ‖ digest of the mask graph (32) ‖ position of the owner (4) ‖ one sealed message (94) for each holder,
in the order of the holders. Message: nonce (12) ‖ ChaCha20-Poly1305 (RFC 8439) of share of b (33) ‖ share of e (33).
"""

import hmac
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from node.masking.graph import MaskGraph
from node.masking.keys import Random, RoundSecrets, agree, derive, is_low_order
from node.masking.shamir import PRIME, SHARE_BYTES, split

NONCE_BYTES = 12
SEALED_BYTES = NONCE_BYTES + 2 * SHARE_BYTES + 16

_MAGIC = b"FGS1"
_HEADER_BYTES = len(_MAGIC) + 32 + 4
_SEAL = b"fedgrove sealed share 1"


class InvalidShares(ValueError):
    """A blob of shares, or one message in it, is not what its owner should have written; the message says why."""


class MaskingRefused(ValueError):
    """A client would expose itself or cannot be part of the sum; the message says why."""


@dataclass(frozen=True)
class SharePair:
    """One holder's shares of one owner: of the self-mask seed b and of the mask secret e (elements of the field)."""

    seed: int = field(repr=False)
    key: int = field(repr=False)


def seal_shares(graph: MaskGraph, position: int, secrets: RoundSecrets, random: Random) -> bytes:
    """Split both secrets and seal a pair of shares for each holder.

    Returns
    -------
    bytes
        40 + 94·k for k holders; safe to publish.

    Raises
    ------
    MaskingRefused
        The secrets are not those of the keys at this position.
    """
    check_own(graph, position, secrets)
    holders, threshold = graph.holders[position], graph.thresholds[position]
    seeds = split(int.from_bytes(secrets.self_seed), threshold, len(holders), random)
    keys = split(int.from_bytes(secrets.mask_secret), threshold, len(holders), random)
    messages = (
        _seal(graph, position, holder, secrets, SharePair(seed, key), random)
        for holder, seed, key in zip(holders, seeds, keys, strict=True)
    )
    return _header(graph, position) + b"".join(messages)


def parse_shares(data: bytes, graph: MaskGraph, owner: int) -> dict[int, bytes]:
    """Cut a blob into its sealed messages, by holder, without opening any.

    Raises
    ------
    InvalidShares
        The blob is not of this graph and owner, or not of the exact length.
    """
    holders = graph.holders[owner]
    expected = _HEADER_BYTES + SEALED_BYTES * len(holders)
    if len(data) != expected:
        raise InvalidShares(
            f"the shares of client {graph.client(owner)} take {len(data)} bytes, {expected} were expected"
        )
    if data[:_HEADER_BYTES] != _header(graph, owner):
        raise InvalidShares(f"the shares of client {graph.client(owner)} belong to another round or client")
    starts = range(_HEADER_BYTES, expected, SEALED_BYTES)
    return {holder: data[start : start + SEALED_BYTES] for holder, start in zip(holders, starts, strict=True)}


def open_shares(graph: MaskGraph, owner: int, holder: int, secrets: RoundSecrets, message: bytes) -> SharePair:
    """Open the sealed message from ``owner`` to ``holder`` with the holder's secrets.

    Raises
    ------
    InvalidShares
        The message was not sealed by this owner for this holder in this round, or holds no field elements.
    """
    nonce, sealed = message[:NONCE_BYTES], message[NONCE_BYTES:]
    try:
        key = _key(graph, owner, holder, secrets, graph.participants[owner].seal_key)
        plain = ChaCha20Poly1305(key).decrypt(nonce, sealed, _associated(graph, owner, holder))
    except (InvalidTag, ValueError):
        raise InvalidShares(f"the share of client {graph.client(owner)} cannot be opened") from None
    shares = SharePair(int.from_bytes(plain[:SHARE_BYTES]), int.from_bytes(plain[SHARE_BYTES:]))
    if len(plain) != 2 * SHARE_BYTES or shares.seed >= PRIME or shares.key >= PRIME:
        raise InvalidShares(f"the share of client {graph.client(owner)} is not an element of the field")
    return shares


def check_own(graph: MaskGraph, position: int, secrets: RoundSecrets) -> None:
    """Refuse to act with secrets that are not those behind the ledger's keys."""
    own = graph.participants[position]
    if not hmac.compare_digest(secrets.mask_key + secrets.seal_key, own.mask_key + own.seal_key):
        raise MaskingRefused(f"the round's secrets are not those of the keys that client {own.client} drew with")


def _seal(graph: MaskGraph, owner: int, holder: int, secrets: RoundSecrets, shares: SharePair, random: Random) -> bytes:
    seal_key = graph.participants[holder].seal_key
    if is_low_order(seal_key):
        return random(SEALED_BYTES)  # everybody could open a message for such a key: this holder goes without
    nonce = random(NONCE_BYTES)
    plain = shares.seed.to_bytes(SHARE_BYTES) + shares.key.to_bytes(SHARE_BYTES)
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
