"""Protocol attacks: what the public records of a round give against its masks. Written for fedgrove.

Each attack makes vectors of words (d,) in which a client's weights might show, and correlates them with the weights. A
control gives the attacker what the masks rest on, or takes the masks away, and must find the weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking import x_only
from fedgrove.node.masking.keys import RoundSecrets, clamp, pair_mask_key, self_mask_key
from fedgrove.node.masking.prg import Mask, apply_masks
from fedgrove.node.masking.ring import WORD
from fedgrove.node.masking.sealing import SealedShares, open_shares, parse_shares
from fedgrove_lab.attacks.measures import correlation, correlation_error, uniformity
from fedgrove_lab.attacks.played_round import PlayedRound, PublicRound

_SIGNED = np.dtype("<i4")


@dataclass(frozen=True)
class Trace:
    """How much of the weights an attack found.

    Attributes
    ----------
    correlation : float
        With the weights: of all vectors that were tried, the one most standard errors from 0.
    deviations : float
        How many.
    tries : int
        Vectors that were tried.
    bytes_off : float or None
        Vectors of words: most standard deviations that the counts of their bytes are from uniform.
    """

    correlation: float
    deviations: float
    tries: int
    bytes_off: float | None


def trace(tries: Sequence[tuple[np.ndarray, np.ndarray]]) -> Trace:
    """Correlate vectors of words, or of numbers, with vectors of weights, pair by pair."""
    found = [(correlation(_numbers(vector), weights), correlation_error(len(vector))) for vector, weights in tries]
    best, error = max(found, key=lambda pair: abs(pair[0]) / pair[1])
    off = [uniformity(vector) for vector, _ in tries if vector.dtype == WORD]
    return Trace(best, abs(best) / error, len(tries), max(off, key=abs, default=None))


def _numbers(vector: np.ndarray) -> np.ndarray:
    return vector.view(_SIGNED) if vector.dtype == WORD else vector


def without(words: np.ndarray, masks: Sequence[Mask]) -> np.ndarray:
    """A copy of masked words, other masks laid over it; uint32 (d,)."""
    rest = words.copy()
    apply_masks(rest, masks)
    return rest


def masks_off(
    public: PublicRound,
    position: int,
    *,
    secret: bytes | None = None,
    seed: bytes | None = None,
    partners: Mapping[int, bytes] | None = None,
) -> list[Mask]:
    """Masks that take a client's masks off, as far as somebody with these secrets can compute them.

    Parameters
    ----------
    position : int
        Whose upload it is.
    secret : bytes, optional
        32 bytes in place of its mask secret: all pair masks.
    seed : bytes, optional
        32 bytes in place of its self-mask seed.
    partners : mapping of int to bytes, optional
        Mask secrets of some of its partners, by position: the masks that it shares with them.
    """
    graph, everything = public.graph, ((0, public.layout.length),)
    me, own = graph.client(position), graph.participants[position]
    masks = [Mask(self_mask_key(graph.context, seed, me), True, everything)] if seed is not None else []
    for partner in graph.neighbours[position]:
        other = graph.participants[partner]
        if secret is not None:
            key = pair_mask_key(graph.context, secret, other.mask_key, me, other.client)
        elif partners and partner in partners:
            key = pair_mask_key(graph.context, partners[partner], own.mask_key, me, other.client)
        else:
            continue
        masks.append(Mask(key, partner > position, everything))  # a client adds the masks shared to its right
    return masks


def public_guesses(public: PublicRound, position: int) -> Iterator[list[Mask]]:
    """All masks of a client, with public values in place of its secrets.

    Such as a scheme gives away whose masks follow from what is on the ledger: keys, hashes, the round's digest, zero.
    """
    own = public.graph.participants[position]
    values = [own.mask_key, own.seal_key, public.graph.digest, bytes(32)]
    values += [public.seed_hashes[position]] if position in public.seed_hashes else []
    values += [public.graph.participants[partner].mask_key for partner in public.graph.neighbours[position]]
    for value in values:
        yield masks_off(public, position, secret=_as_mask_secret(value), seed=value)


def recovered_masks(public: PublicRound, position: int) -> list[Mask]:
    """What a round's recovery record takes off: a survivor's self-mask, and the masks shared with dropouts.

    Of a dropout, whose mask secret the record holds, all pair masks; its self-mask stays.
    """
    if position in public.record.mask_secrets:
        return masks_off(public, position, secret=public.record.mask_secrets[position])
    return masks_off(public, position, seed=public.record.self_seeds[position], partners=public.record.mask_secrets)


def opened_shares(public: PublicRound) -> tuple[int, int]:
    """How many of how many sealed shares are opened by a secret on the record, tried as the holder's sealing secret."""
    published = [*public.record.self_seeds.values(), *public.record.mask_secrets.values()]
    thieves = [RoundSecrets(_as_mask_secret(value), clamp(value), value) for value in published]
    opened = total = 0
    for owner, blob in public.shares.items():
        sealed = parse_shares(blob, public.graph, owner)
        for holder in sealed.messages:
            total += 1
            opened += any(_opens(public, owner, holder, thief, sealed) for thief in thieves)
    return opened, total


def _as_mask_secret(value: bytes) -> bytes:
    """32 bytes as the mask secret that is nearest to them."""
    return x_only.canonical((int.from_bytes(value) % x_only.ORDER or 1).to_bytes(x_only.KEY_BYTES))


def _opens(public: PublicRound, owner: int, holder: int, secrets: RoundSecrets, sealed: SealedShares) -> bool:
    try:
        open_shares(public.graph, owner, holder, secrets, sealed)
    except InvalidContent:
        return False
    return True


def group_sums(
    uploads: Mapping[int, np.ndarray], weights: Mapping[int, np.ndarray]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sums of two, of three and of all uploads, in which masks of pairs cancel, next to those of the weights."""
    sizes = sorted({2, 3, len(uploads)})
    groups = [group for size in sizes for group in combinations(uploads, size)]
    return [(sum_of(uploads[p] for p in group), sum_of(weights[p] for p in group)) for group in groups]


def sum_of(vectors: Iterator[np.ndarray]) -> np.ndarray:
    """The sum of some vectors, words modulo 2³²."""
    first, *others = vectors
    total = first.copy()
    for vector in others:
        total += vector
    return total


def by_tensor(words: np.ndarray, weights: np.ndarray, layout: Layout) -> list[tuple[np.ndarray, np.ndarray]]:
    """The pieces of an upload that are single tensors, next to those of the weights."""
    cuts = np.cumsum(layout.sizes)[:-1]
    return list(zip(np.split(words, cuts), np.split(weights, cuts), strict=True))


def bare_tensors(words: np.ndarray, layout: Layout, limit: int) -> tuple[str, ...]:
    """Names of the tensors that look unmasked: all their words lie in ±``limit``, where masked words lie anywhere.

    Tensors so small that masked words would all lie there by chance once in a million times are never named.
    """
    chance, pieces = 2 * limit / 2**32, np.split(words.view(_SIGNED).astype(np.int64), np.cumsum(layout.sizes)[:-1])
    return tuple(
        name
        for name, piece in zip(layout.names, pieces, strict=True)
        if np.abs(piece).max() <= limit and chance**piece.size < 1e-6
    )


def mean_word(uploads: Sequence[np.ndarray]) -> np.ndarray:
    """The average of uploads read as signed numbers, float64 (d,)."""
    return np.asarray(np.mean([words.view(_SIGNED) for words in uploads], axis=0, dtype=np.float64))


def true_secrets_off(played: PlayedRound, position: int) -> list[Mask]:
    """Control: the client's masks with its own secrets."""
    own = played.secrets[position]
    return masks_off(played.public, position, secret=own.mask_secret, seed=own.self_seed)


def colluding_partners_off(played: PlayedRound, position: int, loyal: int = 0) -> list[Mask]:
    """Control: the masks of a survivor once all of its partners but ``loyal`` give away their secrets."""
    partners = played.public.graph.neighbours[position][loyal:]
    known = {partner: played.secrets[partner].mask_secret for partner in partners}
    return masks_off(played.public, position, seed=played.public.record.self_seeds[position], partners=known)
