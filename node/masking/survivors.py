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
    gone = frozenset(position for number in left_out for position in graph.groups[number].positions)
    seeds = tuple(position for position in needed.seeds if position not in gone)
    return Needed(seeds, tuple(position for position in needed.keys if position not in gone), needed.transcript)


def needed_secrets(graph: MaskGraph, sharers: Collection[int], survivors: Collection[int]) -> Needed:
    """Work out which secrets, of whom, unmask the sum.

    Survivors that are not connected by masks to the largest part of their group are left out, with their self-masks on:
    more than their sum would be readable.

    Raises
    ------
    MaskingRefused
        A survivor did not share; there are fewer survivors than ``graph.min_survivors``; or too few of every group.
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
    if not summed:
        most = max(len(survived.intersection(each.counted)) for each in graph.groups)
        fewest = min(each.quota for each in graph.groups)
        raise MaskingRefused(f"{most} clients of a group survived that mask with each other, but {fewest} are needed")
    dangling = (position for position in shared - survived if summed & set(graph.neighbours[position]))
    return Needed(tuple(sorted(summed)), tuple(sorted(dangling)), _transcript(graph, shared, survived))


def summed_groups(graph: MaskGraph, survivors: Collection[int]) -> tuple[frozenset[int], ...]:
    """Whose updates are summed, for each group: of its survivors the largest part that is connected by masks.

    Nobody's of a group whose part has less than its quota: colluders may be most of what is left.
    """
    survived = frozenset(survivors)
    found: list[frozenset[int]] = []
    for group in graph.groups:
        main = _main_part(graph, survived.intersection(group.positions))
        found.append(main if len(main.intersection(group.counted)) >= group.quota else frozenset())
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


def _main_part(graph: MaskGraph, survivors: frozenset[int]) -> frozenset[int]:
    """The largest part of survivors that masks join; of parts of one size the one with the lowest position."""
    parts, left = [frozenset[int]()], survivors
    while left:
        parts.append(_reachable(graph, min(left), left))
        left -= parts[-1]
    return max(parts, key=len)


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
