"""What has to be revealed for a list of survivors, and when nothing may be."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from fedgrove.node.masking.graph import MaskGraph, encode_positions
from fedgrove.node.masking.sealing import MaskingRefused


@dataclass(frozen=True)
class Needed:
    """The secrets that unmask the sum of a round, by position, ascending.

    Attributes
    ----------
    seeds : tuple of int
        Survivors who are summed: their self-mask seeds b are needed.
    keys : tuple of int
        Dropouts, who shared but did not commit: their mask secrets e are needed, unless no survivor masked with them.
    transcript : bytes
        SHA-256 of the mask graph and both lists; releases and recovery records carry it.
    """

    seeds: tuple[int, ...]
    keys: tuple[int, ...]
    transcript: bytes


def without_groups(graph: MaskGraph, needed: Needed, left_out: Collection[int]) -> Needed:
    """What is needed when the groups with these numbers are left out of the sum: partners are always of one group."""
    gone = frozenset(position for number in left_out for position in graph.groups[number])
    seeds = tuple(position for position in needed.seeds if position not in gone)
    return Needed(seeds, tuple(position for position in needed.keys if position not in gone), needed.transcript)


def needed_secrets(graph: MaskGraph, sharers: Collection[int], survivors: Collection[int]) -> Needed:
    """Work out which secrets, of whom, unmask the sum.

    Raises
    ------
    MaskingRefused
        A survivor did not share; there are fewer survivors than ``graph.min_survivors``; or the survivors are not
        connected by masks, so that more than their sum would be readable. Where groups are summed apart, nothing is
        revealed of a group with too few survivors, and the others are summed; unless there is none.
    """
    shared, survived = frozenset(sharers), frozenset(survivors)
    strangers = sorted((shared | survived) - frozenset(range(graph.n)))
    if strangers:
        raise MaskingRefused(f"position {strangers[0]} is not in the round's order")
    unshared = sorted(survived - shared)
    if unshared:
        raise MaskingRefused(f"client {graph.client(unshared[0])} is listed as a survivor but never shared")
    if len(survived) < graph.min_survivors:
        raise MaskingRefused(f"{len(survived)} clients survived, but {graph.min_survivors} are needed")
    summed = all_summed(graph, survived)
    apart: Collection[int] = () if graph.groups else survived - summed
    if apart:
        raise MaskingRefused(
            f"client {graph.client(min(apart))} is not connected to the other survivors: too many partners dropped out"
        )
    if not summed:
        raise MaskingRefused(
            f"too few clients of every group survived: a group needs {graph.least}, and more than half of its clients"
        )
    dangling = (position for position in shared - survived if summed & set(graph.neighbours[position]))
    return Needed(tuple(sorted(summed)), tuple(sorted(dangling)), _transcript(graph, shared, survived))


def summed_groups(graph: MaskGraph, survivors: Collection[int]) -> tuple[frozenset[int], ...]:
    """Whose updates are summed, for each group; nobody's of a group where more than the sum would be readable.

    Without groups there is one of all: the survivors connected to the first.
    """
    survived = frozenset(survivors)
    if not graph.groups:
        return (_reachable(graph, min(survived), survived),)
    found: list[frozenset[int]] = []
    for group in graph.groups:
        own = survived & frozenset(group)
        # Where many of a group are gone, colluders may be most of what is left.
        enough = len(own) >= graph.least and 2 * len(own) > len(group)
        safe = enough and own == _reachable(graph, min(own), own)
        found.append(own if safe else frozenset())
    return tuple(found)


def opened_groups(
    graph: MaskGraph, survivors: Collection[int], left_out: Collection[int]
) -> tuple[frozenset[int], ...]:
    """As ``summed_groups``, with nobody of the groups that a recovery record leaves out."""
    groups = summed_groups(graph, survivors)
    return tuple(frozenset() if number in left_out else group for number, group in enumerate(groups))


def all_summed(graph: MaskGraph, survivors: Collection[int]) -> frozenset[int]:
    """Whose updates are summed, in whichever group."""
    return frozenset[int]().union(*summed_groups(graph, survivors))


def _reachable(graph: MaskGraph, start: int, survivors: frozenset[int]) -> frozenset[int]:
    """Survivors joined to ``start`` by pairs of survivors.

    Once self-masks and the masks of dropouts are off, each connected component of survivors can be summed by itself;
    Bell et al. 2020 (section 3) choose the graph's degree such that there is one component.
    """
    found, frontier = {start}, [start]
    while frontier:
        fresh = [p for p in graph.neighbours[frontier.pop()] if p in survivors and p not in found]
        found.update(fresh)
        frontier.extend(fresh)
    return frozenset(found)


def _transcript(graph: MaskGraph, sharers: frozenset[int], survivors: frozenset[int]) -> bytes:
    lists = encode_positions(sorted(sharers)) + encode_positions(sorted(survivors))
    return hashlib.sha256(b"fedgrove transcript 1" + graph.digest + lists).digest()
