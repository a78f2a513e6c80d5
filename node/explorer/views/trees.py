"""The cooperation trees of a round: one of all, or, where groups are summed apart, one a group."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from fedgrove.chain.crypto.tree import partners
from fedgrove.node.explorer.tree_drawing import Leaf, cooperation_tree

MAX_LEAVES = 1024
"""A tree of more leaves is not drawn."""


@dataclass(frozen=True)
class Tree:
    """A tree; who masks with nobody is in one without branches.

    Attributes
    ----------
    name : str
        Whose, for a heading; empty where there is one only.
    leaves : sequence of Leaf
        In the order that the ledger has sealed.
    partners : sequence of (sequence of int)
        The leaves, from 0, with which each masks.
    drawing, standing : Markup
        For wide and for narrow windows; empty where it is too large, or has no branches.
    """

    name: str
    leaves: Sequence[Leaf]
    partners: Sequence[Sequence[int]]
    drawing: Markup = field(default_factory=Markup)
    standing: Markup = field(default_factory=Markup)


def trees_of(leaves: Sequence[Leaf], groups: Sequence[Sequence[int]] | None, of: str, what: str) -> list[Tree]:
    """The trees over the leaves of a sealed round.

    Parameters
    ----------
    groups : sequence of (sequence of int) or None
        Clients that are summed apart; None: all are summed together.
    of, what : str
        What they are of, for a title, and what a group is.
    """
    if not leaves:
        return []
    if groups is None:
        return [_tree("", leaves, f"Cooperation tree of {of}")]
    home = {client: number for number, group in enumerate(groups, 1) for client in group}
    members: dict[int, list[Leaf]] = defaultdict(list)
    for leaf in leaves:
        members[home.get(leaf.client, 0)].append(leaf)
    alone = members.pop(0, [])
    found = []
    for number, own in sorted(members.items()):
        name = f"{what} {number}" if len(groups) > 1 else ""
        found.append(_tree(name.capitalize(), own, f"Cooperation tree of {of}{name and f', {name}'}"))
    return [*found, Tree("Without masks", alone, [()] * len(alone))] if alone else found


def _tree(name: str, leaves: Sequence[Leaf], title: str) -> Tree:
    count = len(leaves)
    drawings = [cooperation_tree(leaves, title, standing) for standing in (False, True) if count <= MAX_LEAVES]
    return Tree(name, leaves, [partners(position, count) for position in range(count)], *drawings)
