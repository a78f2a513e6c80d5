"""Which tensors a pair masks when it masks a fraction κ of them (κ = 1: all of them).

The tensors of a layout stand on a circle; a pair masks ⌊κ·L⌋ neighbouring ones. Where its window starts depends on the
level of the cooperation tree at which the two leaves part: windows of successive levels follow each other, so that the
pairs of a client go round the circle.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate

import numpy as np

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.graph import MaskGraph
from fedgrove.node.masking.prg import Mask, MaskKey, Spans

MIN_PAIRS = 2
"""Pairs that must cover each tensor of a client when κ < 1."""


def pair_tensors(a: int, b: int, n: int, count: int, kappa: float) -> frozenset[int]:
    """Indices of the tensors, of ``count``, that positions ``a`` and ``b`` of ``n`` mask."""
    if not 0 < kappa <= 1:
        raise ValueError(f"kappa is {kappa}; set it above 0 and at most 1")
    width = int(kappa * count)
    start = _parting_level(a, b, n) * width
    return frozenset((start + step) % count for step in range(width))


def pair_spans(a: int, b: int, n: int, layout: Layout, kappa: float, behind: int = 0) -> Spans:
    """The words that a pair masks, as ranges of the flat vector; adjoining ranges are joined.

    Words ``behind`` the model stand on no circle: every pair masks them.
    """
    chosen = pair_tensors(a, b, n, len(layout.names), kappa)
    ends = list(accumulate(layout.sizes))
    ranges = [(ends[index] - layout.sizes[index], ends[index]) for index in sorted(chosen)]
    ranges.append((layout.length, layout.length + behind))
    spans: list[tuple[int, int]] = []
    for start, stop in ranges:
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], stop)
        elif start < stop:
            spans.append((start, stop))
    return tuple(spans)


def masks_of(keys: Iterable[MaskKey], n: int, layout: Layout, kappa: float = 1.0, behind: int = 0) -> Iterator[Mask]:
    """The masks of these keys in a round of ``n``: a self-mask covers all words, a pair's those of ``pair_spans``."""
    everything = ((0, layout.length + behind),)
    for each in keys:
        yield Mask(
            each.key, each.subtract, pair_spans(*each.pair, n, layout, kappa, behind) if each.pair else everything
        )


def thinnest(graph: MaskGraph, position: int, present: Collection[int], count: int, kappa: float) -> tuple[int, int]:
    """The tensor of a client that the fewest of its pairs with ``present`` cover: (pairs, index of the tensor).

    Without tensors there are only words that every pair masks: (pairs, 0).
    """
    if not count:
        return sum(partner in present for partner in graph.neighbours[position]), 0
    pairs = np.zeros(count, np.int64)
    for partner in graph.neighbours[position]:
        if partner in present:
            pairs[list(pair_tensors(position, partner, graph.n, count, kappa))] += 1
    return int(pairs.min()), int(pairs.argmin())


def _parting_level(a: int, b: int, n: int) -> int:
    """Depth of the lowest node of the cooperation tree over [0, n) that has both leaves below it."""
    lo, hi, level = 0, n, 0
    while True:
        mid = lo + (hi - lo + 1) // 2
        if (a < mid) != (b < mid):
            return level
        lo, hi = (lo, mid) if a < mid else (mid, hi)
        level += 1
