"""Colluders that choose which of their keys draw, so that an honest client has only them for partners.

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
    room = [len(gap) for gap in gaps]
    for drawing in range(len(colluders), 0, -1):
        n = len(order) + drawing
        for position in range(n):
            own = sum(1 << partner for partner in partners(position, n))
            found = _choose(room, position, own, drawing)
            if found is not None:
                victim, chosen = found
                picked = [ticket for gap, count in zip(gaps, chosen, strict=True) for ticket in gap[:count]]
                return Trap(tuple(picked), order[victim])
    return None


def _gaps(honest: Sequence[int], colluders: Sequence[int]) -> list[list[int]]:
    """The colluders' tickets before, between and after the honest ones."""
    gaps: list[list[int]] = [[] for _ in range(len(honest) + 1)]
    for ticket in colluders:
        gaps[sum(other < ticket for other in honest)].append(ticket)
    return gaps


def _choose(room: Sequence[int], position: int, forbidden: int, total: int) -> tuple[int, list[int]] | None:
    """A victim for a position, and how many to take of each gap so that no honest ticket stands on a forbidden one.

    Bit s of ``before[j]`` says that s colluders can stand before honest ticket j, which is then at position j + s; bit
    s of ``after[j]``, that from there on ``total`` can be reached.
    """
    before = _reached(room, forbidden)
    if before is None or not _shifted(before[-1], room[-1]) >> total & 1:
        return None
    after = _reaching(room, forbidden, total)
    for victim in range(max(0, position - total), min(len(before), position + 1)):
        ahead = position - victim
        if before[victim] & after[victim] & 1 << ahead:
            chosen = _trace_back(before, room, victim, ahead)
            return victim, chosen + _trace_on(after, room, victim, ahead, total)
    return None


def _reached(room: Sequence[int], forbidden: int) -> list[int] | None:
    found, states = [], 1
    for j, most in enumerate(room[:-1]):
        states = _shifted(states, most) & ~(forbidden >> j)
        if not states:
            return None
        found.append(states)
    return found


def _reaching(room: Sequence[int], forbidden: int, total: int) -> list[int]:
    found, states = [], _shifted_down(1 << total, room[-1])
    for j in range(len(room) - 2, -1, -1):
        states &= ~(forbidden >> j)
        found.append(states)
        states = _shifted_down(states, room[j])
    return found[::-1]


def _trace_back(before: Sequence[int], room: Sequence[int], victim: int, ahead: int) -> list[int]:
    """How many to take of each gap up to the victim's."""
    counts, left = [], ahead
    for j in range(victim, -1, -1):
        earlier = before[j - 1] if j else 1
        count = next(count for count in range(room[j] + 1) if left >= count and earlier >> (left - count) & 1)
        counts.append(count)
        left -= count
    return counts[::-1]


def _trace_on(after: Sequence[int], room: Sequence[int], victim: int, ahead: int, total: int) -> list[int]:
    """How many to take of each gap behind the victim's."""
    counts, so_far = [], ahead
    for j in range(victim + 1, len(room)):
        later = after[j] if j < len(after) else 1 << total
        count = next(count for count in range(room[j] + 1) if later >> (so_far + count) & 1)
        counts.append(count)
        so_far += count
    return counts


def _shifted(states: int, most: int) -> int:
    """The union of ``states`` shifted by 0 to ``most`` places."""
    result = states
    for _ in range(most):
        states <<= 1
        result |= states
    return result


def _shifted_down(states: int, most: int) -> int:
    """The union of ``states`` shifted down by 0 to ``most`` places."""
    result = states
    for _ in range(most):
        states >>= 1
        result |= states
    return result
