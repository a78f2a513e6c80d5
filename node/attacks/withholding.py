"""Colluders that choose which of their keys draw, so that an honest client has only them for partners (spec 08, 1).

When everybody's place in the order is known before the last draw, as it was while tickets themselves were the order,
colluders draw last: with the honest tickets at hand, which of their own tickets to use is a search over positions, done
in seconds by a dynamic programme. When the order is drawn after the last draw, there is nothing to search: what is left
is to try orders, for whoever makes the block that they come from.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Partners = Callable[[int, int], Sequence[int]]
"""Position and number of leaves to the positions of its partners."""


@dataclass(frozen=True)
class Trap:
    """Which colluders draw, and who is then alone among them (tickets)."""

    drawing: tuple[int, ...]
    victim: int


def find_trap(honest: Sequence[int], colluders: Sequence[int], partners: Partners) -> Trap | None:
    """A choice of colluders' tickets that leaves some honest ticket only colluders for partners; None if there is none.

    Parameters
    ----------
    honest, colluders : sequence of int
        Tickets; the order is ascending.
    partners : callable
        The tree's.
    """
    order = sorted(honest)
    gaps = _gaps(order, sorted(colluders))
    for drawing in range(len(colluders), 0, -1):
        n = len(order) + drawing
        for position in range(n):
            own = sum(1 << partner for partner in partners(position, n))
            for victim in range(max(0, position - drawing), min(len(order), position + 1)):
                chosen = _choose([len(gap) for gap in gaps], victim, position - victim, own, drawing)
                if chosen is not None:
                    picked = [ticket for gap, count in zip(gaps, chosen, strict=True) for ticket in gap[:count]]
                    return Trap(tuple(picked), order[victim])
    return None


def _gaps(honest: Sequence[int], colluders: Sequence[int]) -> list[list[int]]:
    """The colluders' tickets before, between and after the honest ones."""
    gaps: list[list[int]] = [[] for _ in range(len(honest) + 1)]
    for ticket in colluders:
        gaps[sum(other < ticket for other in honest)].append(ticket)
    return gaps


def _choose(room: Sequence[int], victim: int, before: int, forbidden: int, total: int) -> list[int] | None:
    """How many to take of each gap so that no honest ticket stands on a forbidden position; None if it cannot be.

    Bit s of ``reached[j]`` says that s colluders can stand before honest ticket j, which is then at position j + s; the
    victim must have ``before`` of them before it, and ``total`` draw in all.
    """
    reached, states = [], 1
    for j, most in enumerate(room):
        states = _shifted(states, most)
        if j < len(room) - 1:
            states &= ~(forbidden >> j)
        if j == victim:
            states &= 1 << before
        if not states:
            return None
        reached.append(states)
    if not states >> total & 1:
        return None
    return _trace_back(reached, room, total)


def _trace_back(reached: Sequence[int], room: Sequence[int], total: int) -> list[int]:
    counts, left = [], total
    for j in range(len(room) - 1, -1, -1):
        earlier = reached[j - 1] if j else 1
        count = next(count for count in range(room[j] + 1) if left >= count and earlier >> (left - count) & 1)
        counts.append(count)
        left -= count
    return counts[::-1]


def _shifted(states: int, most: int) -> int:
    """The union of ``states`` shifted by 0 to ``most`` places."""
    result = states
    for _ in range(most):
        states <<= 1
        result |= states
    return result
