"""Play colluders that choose who stands where in the order: ``python scripts/play_withholding.py [--scale 0.1]``.

They want an honest client all of whose partners collude, and try what they can: withhold draws while tickets are the
order (as they once were; a search by dynamic programming), try orders (whoever makes the block that they come from),
and silence honest clients whose places they know. Prints Markdown: how often that exposed somebody, and the formula.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from fedgrove.chain.crypto import tree
from fedgrove.node.masking.collusion import exposed, exposure_bound, simulated_exposure
from fedgrove.node.masking.context import Participant, RoundContext
from fedgrove.node.masking.graph import MaskGraph, build_graph
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, Sharing, partners_of_all, sharing
from fedgrove.node.masking.x_only import point
from fedgrove_lab.attacks.withholding import find_trap
from fedgrove_lab.tables import markdown

SIZES = (64, 100, 256, 1000)
FRACTIONS = (0.10, 0.20, 0.33)
INSTANCES = {64: 100, 100: 100, 256: 30, 1000: 5}
ORDERS = {64: 600, 100: 600, 256: 200, 1000: 40}
TRIALS = {64: 2000, 100: 2000, 256: 600, 1000: 200}
GRANTED = 2**40
_CONTEXT = RoundContext(1, "0x" + 40 * "5", 1)
_KEY = point((1).to_bytes(32))[1:]
_CHEAP = Sharing(2, 2)  # holders play no part here

tree_partners = cache(tree.partners)


@dataclass(frozen=True)
class Draws:
    """All tickets of a round, the colluders' first."""

    tickets: tuple[int, ...]
    colluders: int

    @classmethod
    def make(cls, n: int, fraction: float, instance: int) -> "Draws":
        generator = np.random.default_rng([n, instance])
        tickets = tuple(tree.ticket(generator.bytes(32), client) for client in range(1, n + 1))
        return cls(tickets, int(fraction * n))

    def positions(self, ordered: Sequence[int]) -> frozenset[int]:
        """Where the colluders stand in an order."""
        bad = frozenset(self.tickets[: self.colluders])
        return frozenset(position for position, ticket in enumerate(ordered) if ticket in bad)


# --- while tickets were the order -------------------------------------------------------------------------------------


def withheld(draws: Draws) -> bool:
    """Whether colluders who see all honest tickets before they draw leave somebody only colluders for partners."""
    honest, colluders = draws.tickets[draws.colluders :], draws.tickets[: draws.colluders]
    trap = find_trap(honest, colluders, tree_partners)
    if trap is None:
        return False
    ordered = sorted([*honest, *trap.drawing])
    neighbours = [tree_partners(position, len(ordered)) for position in range(len(ordered))]
    if ordered.index(trap.victim) not in exposed(neighbours, draws.positions(ordered)):
        raise AssertionError("the search found what is no trap")
    return True


def undisturbed(draws: Draws) -> bool:
    """Whether somebody is exposed when all draw."""
    n = len(draws.tickets)
    return bool(exposed([tree_partners(p, n) for p in range(n)], draws.positions(sorted(draws.tickets))))


# --- now that the order is drawn afterwards ---------------------------------------------------------------------------


def graphs(draws: Draws, degree: int, orders: int) -> Iterator[tuple[MaskGraph, frozenset[int]]]:
    """The mask graph of each order that is tried, and where in it the colluders stand."""
    n = len(draws.tickets)
    participants = [Participant(p, p + 1, 1, _KEY, _KEY) for p in range(n)]
    partners = [tree_partners(p, n) for p in range(n)]
    for attempt in range(orders):
        seed = tree.order_seed(1, _CONTEXT.ledger, 1, attempt.to_bytes(32))
        ordered = tree.order(draws.tickets, seed)
        graph = build_graph(_CONTEXT, participants, partners, degree=degree, shares=_CHEAP, seed=seed)
        yield graph, draws.positions(ordered)


def honest_partners(graph: MaskGraph, bad: frozenset[int]) -> int:
    """The fewest honest partners that an honest client has; all of them would have to be silenced."""
    return min(len(set(own) - bad) for position, own in enumerate(graph.neighbours) if position not in bad)


# --- tables -----------------------------------------------------------------------------------------------------------


def old_rule(scale: float) -> Iterator[list[str]]:
    """Tickets are the order, partners those of the tree; and the same partners in an order that is drawn afterwards."""
    for n in SIZES:
        for fraction in FRACTIONS:
            count = max(1, round(scale * INSTANCES[n]))
            rounds = [Draws.make(n, fraction, instance) for instance in range(count)]
            colluders = rounds[0].colluders
            degrees = [len(tree_partners(position, n)) for position in range(n)]
            formula = sum(exposure_bound(n, colluders, degree) for degree in degrees) / n
            orders = max(1, round(scale * ORDERS[n]))
            hits = sum(bool(exposed(graph.neighbours, bad)) for graph, bad in graphs(rounds[0], 0, orders))
            yield [
                f"{n:,}",
                f"{fraction:.0%}",
                _share(sum(map(undisturbed, rounds)), count),
                f"{formula:.1g}",
                _share(sum(map(withheld, rounds)), count),
                _share(hits, orders),
            ]


def new_rule(scale: float) -> Iterator[list[str]]:
    """Partners by the default terms, in each of the orders that are tried."""
    for n in SIZES:
        degree, threshold = partners_of_all(n, DEFAULT_ASSUMED), sharing(n, DEFAULT_ASSUMED).threshold
        for fraction in FRACTIONS:
            draws, orders = Draws.make(n, fraction, 0), max(1, round(scale * ORDERS[n]))
            hits, fewest = 0, n
            for graph, bad in graphs(draws, degree, orders):
                hits += bool(exposed(graph.neighbours, bad))
                fewest = min(fewest, honest_partners(graph, bad))
            silenced = f"{fewest}" if n - fewest >= threshold else f"{fewest}: too few survive"
            bound = exposure_bound(n, draws.colluders, degree)
            yield [
                f"{n:,}",
                f"{fraction:.0%}",
                str(degree),
                _share(hits, orders),
                f"{min(1.0, orders * bound):.1g}",
                f"{min(1.0, GRANTED * bound):.1g}",
                silenced,
            ]


def formula(scale: float) -> Iterator[list[str]]:
    """Random partners so few that exposures can be counted, each time in a fresh order."""
    for n in SIZES:
        for fraction in FRACTIONS:
            colluders, trials = int(fraction * n), max(1, round(scale * TRIALS[n]))
            degrees = {max(d for d in range(2, n) if exposure_bound(n, colluders, d) >= p) for p in (0.3, 0.03)}
            for degree in sorted(degrees):
                seen = simulated_exposure(n, colluders, degree, trials, np.random.default_rng(n))
                bound = exposure_bound(n, colluders, degree)
                error = (seen * (1 - seen) / trials) ** 0.5
                yield [
                    f"{n:,}",
                    f"{fraction:.0%}",
                    str(degree),
                    f"{trials:,}",
                    f"{seen:.3f} ± {2 * error:.3f}",
                    f"{bound:.3f}",
                ]


TABLES = {
    "While tickets were the order, and partners those of the tree": (
        old_rule,
        [
            "clients",
            "collude",
            "exposed, all draw",
            "formula",
            "exposed, some withhold their draws",
            "order afterwards",
        ],
    ),
    "Partners by the default terms, order drawn afterwards": (
        new_rule,
        ["clients", "collude", "partners", "orders that expose", "formula", "formula, 2⁴⁰ orders", "honest to silence"],
    ),
    "The formula where it can be counted": (
        formula,
        ["clients", "collude", "partners", "orders", "share that exposes somebody", "formula (upper bound)"],
    ),
}


def _share(hits: int, count: int) -> str:
    return f"{hits:,} of {count:,}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of instances, orders and trials")
    options = parser.parse_args()
    for title, (make, head) in TABLES.items():
        print(f"### {title}\n\n{markdown(head, list(make(options.scale)), words=0)}\n")
