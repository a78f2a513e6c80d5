"""Vectors of integers modulo 2³² under masks, as uploads, and their sum with the masks off."""

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


def masked_bytes(
    inputs: RoundInputs, client: int, secrets: RoundSecrets, words: np.ndarray, layout: Layout, behind: int = 0
) -> bytes:
    """Lay the client's masks over ``words`` (uint32, changed in place) and return the upload.

    ``behind`` of the words follow those of the layout.
    """
    position, kappa = inputs.current.order.index(client), inputs.config.masking.kappa
    mask_words(inputs.graph, position, secrets, inputs.sharers, words, layout, kappa=kappa, behind=behind)
    return words.astype(WORD, copy=False).tobytes()


def unmasked_sum(
    inputs: RoundInputs,
    record: RecoveryRecord,
    layout: Layout,
    group: Collection[int],
    behind: int = 0,
) -> np.ndarray:
    """Sum a group's uploads and take the masks off: uint32 array of shape (layout.length + behind,).

    ``group`` has the positions of one, as ``opened_groups`` gives them. ``behind`` of the words follow those of the
    layout.

    Raises
    ------
    StoreError
        An upload cannot be fetched.
    InvalidUpdate
        An upload has the wrong length, or its blocks make no file.
    """
    current, masking = inputs.current, inputs.config.masking
    aggregate = Aggregate(
        inputs.graph,
        inputs.sharers,
        record.left(inputs.survivors),
        record,
        layout,
        masking.bound,
        kappa=masking.kappa,
        group=group,
        behind=behind,
    )
    for client, commit in current.commits.items():
        position = current.order.index(client)
        if position not in group:
            continue
        try:
            aggregate.add(position, inputs.store.stream(commit.digest, WORD.itemsize * (layout.length + behind)))
        except (TooLarge, Malformed) as lie:
            raise InvalidUpdate(f"client {client}: {lie}", client) from None
    return aggregate.unmasked()
