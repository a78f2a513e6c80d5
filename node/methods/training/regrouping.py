"""Smaller sums after a round that some member spoilt, so that one member cannot stop a federation.

A sum hides who put what into it, also who put something impossible into it, shared garbage, or took its update away.
After a round that failed like this, the next ones are summed in groups: a group that one member spoils is left
out, the others make the next model. A member that lies in every group that was left out is found soon.

Which rounds are regrouped follows from the ledger alone (``node.protocol.rounds.is_regrouped``), and of each group as
many must survive as hide each other (``node.masking.parameters.group_size``): a coordinator that records failures
without reason gains nothing but that.
"""

from itertools import pairwise

from fedgrove.node.masking.graph import Adjacency
from fedgrove.node.masking.parameters import Assumed, with_dropouts


def parts(n: int, least: int, assumed: Assumed) -> Adjacency:
    """n positions in as many groups as there can be, by their order, which is random.

    Groups are so large that ``least`` of each survive on average; where that makes only one, and two of ``least`` would
    do, two. Where there can be only one, it is as small as it may be, and the others send nothing this time: whoever
    spoils the sums is among them sooner or later.
    """
    count = max(n // with_dropouts(least, assumed), min(2, n // least))
    if count < 2:
        return (_first(n, least, with_dropouts(least, assumed)),)
    cuts = [number * n // count for number in range(count + 1)]
    return tuple(tuple(range(first, last)) for first, last in pairwise(cuts))


def half(n: int, least: int, assumed: Assumed) -> Adjacency:
    """Half of n positions, or more for ``least`` to survive, where sums must not be split: noise is made for one sum.

    The others send nothing this time. A spoiler is among them every other round.
    """
    return (_first(n, least, max(with_dropouts(least, assumed), (n + 1) // 2)),)


def _first(n: int, least: int, wanted: int) -> tuple[int, ...]:
    """As many of n positions as are wanted, but not all while one can be spared."""
    return tuple(range(min(n, max(least, min(wanted, n - 1)))))
