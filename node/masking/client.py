"""Step commit: a client's masked update.

yᵢ = qᵢ + PRG(bᵢ) + Σ_{j∈partners, j>i} PRG(s_ij) − Σ_{j∈partners, j<i} PRG(s_ij)  mod 2³², over partners that shared.
"""

from collections.abc import Collection

import numpy as np

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.coverage import MIN_PAIRS, masks_of, thinnest
from fedgrove.node.masking.graph import MaskGraph
from fedgrove.node.masking.keys import RoundSecrets, pair_mask_key, self_mask_key
from fedgrove.node.masking.prg import MaskKey, apply_masks
from fedgrove.node.masking.ring import encode
from fedgrove.node.masking.sealing import MaskingRefused, check_own, seal_shares

__all__ = ["MaskKey", "MaskingRefused", "RoundSecrets", "mask_keys", "mask_update", "mask_words", "seal_shares"]


def mask_update(
    graph: MaskGraph,
    position: int,
    secrets: RoundSecrets,
    sharers: Collection[int],
    vector: np.ndarray,
    layout: Layout,
    *,
    bound: float,
    kappa: float = 1.0,
) -> np.ndarray:
    """Encode a model and lay the self-mask and all pair masks over it.

    Parameters
    ----------
    position : int
        This client's leaf.
    secrets : RoundSecrets
        Its secrets of the round.
    sharers : collection of int
        Positions whose shares are on the ledger; the others are out of the mask graph.
    vector : float32 array of shape (layout.length,)
        The model, or its update.
    layout : Layout
        Its tensors.
    bound : float
        Largest absolute value allowed in ``vector``.
    kappa : float
        Fraction of the tensors that each pair masks.

    Returns
    -------
    uint32 array of shape (layout.length,), little-endian
        Uniform to anybody who lacks the secrets.

    Raises
    ------
    MaskingRefused
        The client did not share, its keys differ, or too few partners shared to hide its model once the self-mask is
        off.
    InvalidContent
        A value is not finite or over the bound.
    """
    words = encode(vector, layout, graph.participants[position].samples, graph.total_samples, bound)
    mask_words(graph, position, secrets, sharers, words, layout, kappa=kappa)
    return words


def mask_words(
    graph: MaskGraph,
    position: int,
    secrets: RoundSecrets,
    sharers: Collection[int],
    words: np.ndarray,
    layout: Layout,
    *,
    kappa: float = 1.0,
    behind: int = 0,
) -> None:
    """Lay the self-mask and all pair masks over integers that are ready to be summed.

    Parameters
    ----------
    words : uint32 array of shape (layout.length + behind,)
        Changed in place.
    behind : int
        How many words follow the model's; every pair masks them.

    Notes
    -----
    The other parameters, and MaskingRefused, are those of ``mask_update``.
    """
    keys = mask_keys(graph, position, secrets, sharers)
    _check_cover(graph, position, sharers, layout, kappa)
    apply_masks(words, masks_of(keys, graph.n, layout, kappa, behind))


def mask_keys(graph: MaskGraph, position: int, secrets: RoundSecrets, sharers: Collection[int]) -> list[MaskKey]:
    """The keys of a client's masks: its own first, then one for each partner that shared.

    NOTE: without a partner nothing hides what it sends once the self-mask is off; callers refuse that.

    Raises MaskingRefused: the client did not share, or its keys differ.
    """
    check_own(graph, position, secrets)
    me = graph.client(position)
    if position not in sharers:
        raise MaskingRefused(f"client {me} has not shared its secrets, so its mask could not be removed")
    keys = [MaskKey(self_mask_key(graph.context, secrets.self_seed, me), False)]
    for partner in graph.neighbours[position]:
        if partner in sharers:
            other = graph.participants[partner]
            key = pair_mask_key(graph.context, secrets.mask_secret, other.mask_key, me, other.client)
            keys.append(MaskKey(key, partner < position, (position, partner)))
    return keys


def _check_cover(graph: MaskGraph, position: int, sharers: Collection[int], layout: Layout, kappa: float) -> None:
    pairs, tensor = thinnest(graph, position, sharers, len(layout.names), kappa)
    needed = MIN_PAIRS if kappa < 1 else 1
    if pairs < needed:
        part = f"tensor {layout.names[tensor]!r}" if layout.names else "the metrics"
        raise MaskingRefused(
            f"{part} of client {graph.client(position)} would be masked by {pairs} pairs, but "
            f"{needed} are needed: its partners did not share, or masking.kappa is too small"
        )
