"""Separate sums of the groups of a round with clusters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from fedgrove.node.base.tensors import Layout, Tensors, unflatten
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD, fraction_bits
from fedgrove.node.masking.survivors import opened_groups
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.training import Cluster
from fedgrove.node.privacy.mechanism import Weight
from fedgrove.node.privacy.weighted import WeightedMean
from fedgrove.node.protocol.masked_sum import unmasked_sum
from fedgrove.node.protocol.round_inputs import RoundInputs


@dataclass(frozen=True)
class GroupSum:
    """Sum of one group.

    Attributes
    ----------
    group : Cluster
        Who is in the sum; nobody where too few of the group are left.
    words : uint32 array of shape (layout.length,), or None
        The sum without masks; None where there is none, or it cannot be that of updates within the bound.
    fault : int or None
        A client whose upload cannot be summed at all.
    behind : uint32 array
        The words behind those of the layout: the members' metrics.
    """

    group: Cluster
    words: np.ndarray | None = None
    fault: int | None = None
    behind: np.ndarray = field(default_factory=lambda: np.empty(0, WORD))


def group_sums(
    inputs: RoundInputs[ClusterState], record: RecoveryRecord, layout: Layout, behind: int = 0
) -> list[GroupSum]:
    """The sum of each group, of whatever integers lay under the masks; ``behind`` words follow those of the layout.

    Raises StoreError.
    """
    found = []
    for positions in opened_groups(inputs.graph, inputs.survivors, record.left_out):
        group = tuple(sorted(inputs.graph.client(position) for position in positions))
        if not group:
            found.append(GroupSum(()))
            continue
        try:
            words = unmasked_sum(inputs, record, layout, positions, behind)
            found.append(GroupSum(group, words[: layout.length], behind=words[layout.length :]))
        except InvalidUpdate as fault:
            found.append(GroupSum((), None, fault.client))
    return found


def checked(sums: Sequence[GroupSum], weights: Mapping[int, Fraction], bound: float) -> list[GroupSum]:
    """The sums, without those that updates within the bound cannot produce."""
    return [each if _is_within(each, weights, bound) else GroupSum(each.group) for each in sums]


def share_of(group: Cluster, weights: Mapping[int, Fraction]) -> Fraction:
    """Total weight of a group's members."""
    return sum((weights[client] for client in group), Fraction(0))


def counted(weight: Fraction) -> Weight:
    """A weight as a mechanism takes it."""
    return Weight(weight.numerator, weight.denominator)


def mean_of(each: GroupSum, weights: Mapping[int, Fraction], mean: WeightedMean, model: Tensors) -> Tensors:
    """The mean behind a sum, within the bound to the last bit; where there is none, the model that there was."""
    if each.words is None:
        return model
    weight = counted(share_of(each.group, weights))
    return unflatten(mean.mean(each.words.copy(), lambda: model, weight), mean.layout)


def together(sums: Sequence[GroupSum]) -> GroupSum:
    """One sum of all groups that have one."""
    known = [each for each in sums if each.words is not None]
    if not known:
        return GroupSum(())
    words = np.add.reduce([each.words for each in known if each.words is not None], axis=0, dtype=WORD)
    return GroupSum(tuple(sorted(client for each in known for client in each.group)), words)


def _is_within(each: GroupSum, weights: Mapping[int, Fraction], bound: float) -> bool:
    """Whether no parameter is beyond the bound, times the weights; each update was rounded once."""
    if each.words is None:
        return True
    most = share_of(each.group, weights) * int(bound * (1 << fraction_bits(bound))) + len(each.group)
    largest = int(np.abs(each.words.view("<i4").astype(np.int64)).max(initial=0))
    return largest <= most
