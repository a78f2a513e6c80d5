"""Step expel, only where the equation of the sum fails: whose voucher the opened keys disprove, and what opens next.

Once self-mask seeds of the summed and mask secrets of dropouts are open, everybody can recompute what each summed
member published of its upload, its self-mask and its edges to dropouts. All three are functions of its own opened keys,
so an honest member never differs. A member that does is a proven liar: it leaves the sum and becomes a dropout, its
mask secret is opened as well, and the equation is tried again without it. A partner that lied on the edge to it differs
then. If nobody differs, the equation holds, by linearity, with the outer masks recomputed.
"""

import enum
from collections.abc import Callable, Collection, Mapping

import numpy as np

from fedgrove.node.masking.bounds.edges import SketchedMask, sketched_masks
from fedgrove.node.masking.bounds.equation import Vouched
from fedgrove.node.masking.bounds.vouching import Setting
from fedgrove.node.masking.keys import pair_mask_key, self_mask_key
from fedgrove.node.masking.prg import MaskKey
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.masking.survivors import Needed, needed_secrets


class Lie(enum.Enum):
    """What the opened keys disprove of a voucher."""

    UPLOAD = "its sketch is not that of its upload"
    SELF_MASK = "its commitment is not that of its self-mask"
    EDGE = "its commitment is not that of a mask with a partner that is not summed"


def disproven(
    setting: Setting,
    vouchers: Mapping[int, Vouched],
    summed: Collection[int],
    record: RecoveryRecord,
    upload: Callable[[int], np.ndarray],
) -> dict[int, Lie]:
    """Summed members whose vouchers differ from what their opened keys give, with the first difference.

    A member is a proven liar only to somebody who has verified its voucher under the S that is in force, and holds its
    upload under its digest.

    Parameters
    ----------
    vouchers : mapping of int to Vouched
        By position, of at least the summed.
    summed : collection of int
        L without who was expelled before.
    record : RecoveryRecord
        Checked: b of at least the summed, e of all their partners that are not summed.
    upload : callable
        yᵢ by position, uint32 of shape (d + μ,): called once for each. Of another length: what lies there is no upload.

    Returns
    -------
    dict of int to Lie
        Ascending by position.
    """
    worn = {position: outer_keys(setting, position, summed, record) for position in sorted(summed)}
    masks = iter(sketched_masks(setting.sketch, [key for keys in worn.values() for key in keys]))
    found: dict[int, Lie] = {}
    for position, keys in worn.items():
        lie = _lie(vouchers[position], {_partner(key): next(masks) for key in keys})
        if not is_sketched(setting, upload(position), vouchers[position]):
            lie = Lie.UPLOAD
        if lie is not None:
            found[position] = lie
    return found


def is_sketched(setting: Setting, upload: np.ndarray, voucher: Vouched) -> bool:
    """Whether what a member uploaded has the sketch that it vouched for; what has another length has none."""
    sketch = setting.sketch
    return len(upload) == sketch.length + sketch.metrics and np.array_equal(sketch.of(upload), voucher.upload)


def outer_keys(setting: Setting, position: int, summed: Collection[int], record: RecoveryRecord) -> list[MaskKey]:
    """The masks of a summed member that the sum still wears: its own, and those with partners that are not summed."""
    graph = setting.graph
    own = graph.participants[position]
    keys = [MaskKey(self_mask_key(graph.context, record.self_seeds[position], own.client), False)]
    for partner in setting.partners(position):
        if partner not in summed:
            secret, client = record.mask_secrets[partner], graph.client(partner)
            key = pair_mask_key(graph.context, secret, own.mask_key, client, own.client)
            keys.append(MaskKey(key, partner < position, (position, partner)))
    return keys


def after_expulsion(setting: Setting, summed: Collection[int], liars: Collection[int]) -> Needed:
    """What is opened in the next stage: mask secrets of the liars, no self-mask seed.

    Raises
    ------
    MaskingRefused
        Too few are left, or masks do not connect all of them: their self-masks are open, so each part of them could be
        summed by itself.
    """
    graph, rest = setting.graph, frozenset(summed).difference(liars)
    whole = needed_secrets(graph, setting.sharers, rest)
    if frozenset(whole.seeds) != rest:
        apart = min(rest.difference(whole.seeds))
        raise MaskingRefused(f"without the expelled, no masks connect client {graph.client(apart)} to the others")
    fresh = tuple(position for position in whole.keys if position in liars)
    return Needed(whole.seeds, fresh, whole.transcript)


def _lie(vouched: Vouched, masks: Mapping[int | None, SketchedMask]) -> Lie | None:
    if any(vouched.pairs[partner] != mask.commitment for partner, mask in masks.items() if partner is not None):
        return Lie.EDGE
    return Lie.SELF_MASK if vouched.own != masks[None].commitment else None


def _partner(key: MaskKey) -> int | None:
    return key.pair[1] if key.pair is not None else None
