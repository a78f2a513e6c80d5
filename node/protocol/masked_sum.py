"""Vectors of integers modulo 2³² under masks, as uploads, and their sum with the masks off (spec 02, steps 4 and 6)."""

from collections.abc import Collection

import numpy as np
from fedgrove.ipfs.store import Malformed, TooLarge
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.aggregate import Aggregate, InvalidUpdate
from fedgrove.node.masking.client import mask_words
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD
from fedgrove.node.protocol.round_inputs import RoundInputs


def masked_bytes(round: RoundInputs, client: int, secrets: RoundSecrets, words: np.ndarray, layout: Layout) -> bytes:
    """Lay the client's masks over ``words`` (uint32, changed in place) and return the upload."""
    position = round.entry.order.index(client)
    mask_words(round.graph, position, secrets, round.sharers, words, layout, kappa=round.config.masking.kappa)
    return words.astype(WORD).tobytes()


def unmasked_sum(
    round: RoundInputs, record: RecoveryRecord, layout: Layout, group: Collection[int] | None = None
) -> np.ndarray:
    """Sum the survivors' uploads and take the masks off: uint32 array of shape (layout.length,).

    Where groups are summed apart, ``group`` has the positions of one, as ``summed_groups`` gives them.

    Raises
    ------
    StoreError
        An upload cannot be fetched.
    InvalidUpdate
        An upload has the wrong length, or its blocks make no file.
    """
    entry, masking = round.entry, round.config.masking
    aggregate = Aggregate(
        round.graph, round.sharers, round.survivors, record, layout, masking.bound, kappa=masking.kappa, group=group
    )
    for client, commit in entry.commits.items():
        position = entry.order.index(client)
        if group is not None and position not in group:
            continue
        try:
            aggregate.add(position, round.store.stream(commit.digest, WORD.itemsize * layout.length))
        except (TooLarge, Malformed) as lie:
            raise InvalidUpdate(f"client {client}: {lie}", client) from None
    return aggregate.unmasked()
