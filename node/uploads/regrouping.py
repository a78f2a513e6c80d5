"""Smaller sums after a round that some member spoilt, so that one member cannot stop a federation.

A sum hides who put what into it, also who put something impossible into it, shared garbage, or took its update away.
After a round that failed by such a thing, the next ones are summed in groups: a group that one member spoils is left
out, the others make the next model. Who lies in every group that was left out is found soon.

Which rounds are regrouped follows from the ledger alone (``node.rounds.is_regrouped``), and groups are never smaller
than what hides their members (``node.masking.parameters.group_size``): a coordinator that records failures without
reason gains nothing but that.
"""

from itertools import pairwise

from node.masking.graph import Adjacency


def parts(n: int, size: int) -> Adjacency:
    """n positions in as many groups of at least ``size`` as there can be, by their order, which is random.

    Where there can be only one, it is as small as it may be, and the others send nothing this time: whoever spoils the
    sums is among them sooner or later.
    """
    count = n // size
    if count < 2:
        return (tuple(range(min(n, size))),)
    cuts = [number * n // count for number in range(count + 1)]
    return tuple(tuple(range(first, last)) for first, last in pairwise(cuts))


def half(n: int, size: int) -> Adjacency:
    """Half of n positions, at least ``size``, for sums that must not be split: their noise is made for one sum.

    The others send nothing this time. A spoiler is among them every other round.
    """
    return (tuple(range(min(n, max(size, (n + 1) // 2)))),)
