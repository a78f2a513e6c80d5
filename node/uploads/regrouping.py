"""Smaller sums after a round that some member spoilt, so that one member cannot stop a federation.

A sum hides who put what into it, also who put something impossible into it, shared garbage, or took its update away.
After a round that failed by such a thing, the next ones are summed in groups: a group that one member spoils is left
out, the others make the next model. The j-th such failure is followed by 2ʲ grouped rounds, so that a member that
spoils every whole sum costs the federation only a few rounds. Who lies in every group that was left out is found soon.

Which rounds are grouped follows from the ledger alone, and groups are never smaller than what hides their members
(``node.masking.parameters.group_size``): a coordinator that records failures without reason gains nothing but that.
"""

from itertools import pairwise

from chain.records import Failed, FailureReason
from node.masking.graph import Adjacency
from node.rounds import Rounds

SPOILT = frozenset({FailureReason.INVALID_UPDATE, FailureReason.TOO_FEW_SHARES, FailureReason.UPDATE_UNAVAILABLE})
MOST_DOUBLINGS = 10


def is_grouped(rounds: Rounds, number: int) -> bool:
    """Whether a round is summed in groups, because of rounds before it that were spoilt."""
    spoilt = [
        entry.number
        for entry in rounds.rounds.values()
        if entry.number < number and isinstance(entry.end, Failed) and entry.end.reason in SPOILT
    ]
    return bool(spoilt) and number <= spoilt[-1] + 2 ** min(len(spoilt), MOST_DOUBLINGS)


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
