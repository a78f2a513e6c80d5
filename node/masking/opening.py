"""One update without its masks, for somebody whom its client, or all partners of it, told a mask secret.

A sum says nothing of a single update. Where a client is to answer for what it sent, it tells its mask secret e; the
recovery record has its self-mask seed, so both kinds of mask come off. Whoever is told e checks it against the mask key
on the ledger: there is no second secret that would show another update.
"""

from collections.abc import Collection, Mapping

import numpy as np

from fedgrove.node.masking.graph import MaskGraph
from fedgrove.node.masking.keys import is_mask_secret, pair_mask_key, self_mask_key
from fedgrove.node.masking.prg import Mask, apply_masks
from fedgrove.node.masking.recovery import RecoveryRecord


def valid_secrets(graph: MaskGraph, claimed: Mapping[int, bytes]) -> dict[int, bytes]:
    """Those of the secrets, by position, that belong to the mask keys on the ledger."""
    return {
        position: secret
        for position, secret in claimed.items()
        if is_mask_secret(secret, graph.participants[position].mask_key)
    }


def open_update(
    graph: MaskGraph,
    position: int,
    secrets: Mapping[int, bytes],
    sharers: Collection[int],
    record: RecoveryRecord,
    masked: np.ndarray,
) -> np.ndarray | None:
    """Take all masks off one survivor's update.

    Parameters
    ----------
    position : int
        Of a survivor that was summed.
    secrets : mapping of int to bytes
        Mask secrets by position, checked: its own or those of all its partners.
    sharers : collection of int
        Positions on the ledger's share list.
    record : RecoveryRecord
        The round's, checked. Partners that dropped out have their secrets in it.
    masked : uint32 array, one-dimensional
        What the survivor committed to; every pair masks all of it (κ = 1).

    Returns
    -------
    uint32 array of the same shape, or None
        Exactly what lay under the masks; None if some mask's key follows from none of the secrets.
    """
    known = {**record.mask_secrets, **secrets}
    everything = ((0, len(masked)),)
    own = self_mask_key(graph.context, record.self_seeds[position], graph.client(position))
    masks = [Mask(own, True, everything)]
    for partner in graph.neighbours[position]:
        if partner not in sharers:
            continue
        mine, other = (position, partner) if position in known else (partner, position)
        if mine not in known:
            return None
        public = graph.participants[other].mask_key
        key = pair_mask_key(graph.context, known[mine], public, graph.client(mine), graph.client(other))
        masks.append(Mask(key, partner > position, everything))
    words = masked.copy()
    apply_masks(words, masks)
    return words
