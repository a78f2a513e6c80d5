"""How often a round fails for lack of shares, and what more holders cost: ``python scripts/play_dropouts.py``.

Each client drops out with the same probability, by itself: it shared its secrets, and neither commits nor releases.
Rounds are simulated by counting shares; what is too rare to be counted is sampled where it happens (a client is drawn,
enough of its holders drop out that its secret is lost, and the chance of that is shared among all whose secrets are
lost with it: Karp and Luby 1983). Prints Markdown.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import comb
from random import Random

import numpy as np

from fedgrove.node.masking.graph import MaskGraph, random_regular
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, Sharing, sharing
from fedgrove.node.masking.sealing import (
    Kind,
    Opening,
    is_committed,
    open_shares,
    parse_shares,
    seal_shares,
    shares_bytes,
)
from fedgrove.node.masking.shamir import recover_secret, split
from fedgrove_lab.bench.rows import least
from fedgrove_lab.masked_round import MaskedRound
from fedgrove_lab.tables import markdown

OLD = Sharing(32, 22)
"""Holders and threshold of every round from 33 clients on, before."""
ROUNDS = 100_000
SAMPLES = 2_000
SIZES = (8, 16, 32, 33, 64, 100, 256, 1000)
DROPOUTS = 0.2
_BATCH = 2_000


@dataclass(frozen=True)
class Holders:
    """Who holds whose shares: ``of[i]`` are the positions of i's holders."""

    of: tuple[tuple[int, ...], ...]
    threshold: int

    @classmethod
    def random(cls, n: int, shares: Sharing) -> "Holders":
        return cls(random_regular(n, shares.holders, b"holders"), shares.threshold)

    @classmethod
    def nearest(cls, n: int, shares: Sharing) -> "Holders":
        """Those next to a client on the ring of the order, as it was before."""
        reach = range(1, shares.holders // 2 + 1)
        return cls(tuple(tuple((p + s) % n for r in reach for s in (r, -r)) for p in range(n)), shares.threshold)

    @property
    def n(self) -> int:
        return len(self.of)


def failures(holders: Holders, dropouts: float, rounds: int, generator: np.random.Generator) -> int:
    """In how many rounds fewer than ``threshold`` holders of somebody are left."""
    matrix = np.zeros((holders.n, holders.n), np.float32)
    for owner, own in enumerate(holders.of):
        matrix[owner, list(own)] = 1
    failed = 0
    for start in range(0, rounds, _BATCH):
        batch = min(_BATCH, rounds - start)
        left = (generator.random((holders.n, batch)) >= dropouts).astype(np.float32)
        failed += int((matrix @ left < holders.threshold).any(axis=0).sum())
    return failed


def failure_chance(holders: Holders, dropouts: float, samples: int, generator: np.random.Generator) -> float:
    """The chance that somebody's secret is lost, however small."""
    total = 0.0
    tails = left_chances(len(holders.of[0]), dropouts)[: holders.threshold]
    lost = sum(tails)
    for _ in range(samples):
        own = np.array(holders.of[generator.integers(holders.n)])
        left = generator.random(holders.n) >= dropouts
        left[own] = False
        left[generator.permutation(own)[: generator.choice(len(tails), p=np.array(tails) / lost)]] = True
        total += 1 / sum(int(left[list(each)].sum()) < holders.threshold for each in holders.of)
    return holders.n * lost * total / samples


def left_chances(holders: int, dropouts: float) -> list[float]:
    """The chance that 0, 1, … of this many holders are left."""
    return [comb(holders, left) * (1 - dropouts) ** left * dropouts ** (holders - left) for left in range(holders + 1)]


def union_bound(holders: Holders, dropouts: float) -> float:
    """n · P(fewer than t of k holders are left): what the terms keep below 2⁻³⁰ where n allows it."""
    return min(1.0, holders.n * sum(left_chances(len(holders.of[0]), dropouts)[: holders.threshold]))


# --- what holders cost ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """Bytes that a client publishes, a holder fetches, and whoever recovers fetches; seconds of each."""

    published: int
    fetched: int
    all_shares: int
    sealing: float
    opening: float
    recovering: float


def cost(n: int, shares: Sharing) -> Cost:
    """Measured on one client, one of its holders, one secret, and multiplied."""
    random = Random(0).randbytes
    drawn = MaskedRound.draw([1] * n, random, in_tree=False, shares=shares, seed=b"")
    graph, secrets = drawn.graph, drawn.secrets
    holder, published = graph.holders[0][0], shares_bytes(graph, 0)
    sealed = parse_shares(seal_shares(graph, 0, secrets[0], random), graph, 0)
    return Cost(
        published,
        len(graph.held_by[0]) * published,
        n * published,
        _best(lambda: seal_shares(graph, 0, secrets[0], random)),
        len(graph.held_by[0]) * _best(lambda: open_shares(graph, 0, holder, secrets[holder], sealed)),
        n * _recovering(graph, secrets[0], random),
    )


def _recovering(graph: MaskGraph, secrets: RoundSecrets, random: Callable[[int], bytes]) -> float:
    """Seconds to hold the shares of one secret against their commitments, and to recover it."""
    secret, holders = int.from_bytes(secrets.self_seed), graph.holders[0]
    shares = dict(enumerate(split(secret, graph.threshold, len(holders), random)))
    sealed = parse_shares(seal_shares(graph, 0, secrets, random), graph, 0)
    opening = Opening(1, bytes(16))  # a wrong one takes as long to check

    def work() -> None:
        for holder in holders:
            is_committed(graph, 0, holder, Kind.SEED, opening, sealed)
        recover_secret(shares, graph.threshold, lambda value: value == secret)

    return _best(work)


def _best(work: Callable[[], object]) -> float:
    """Least processor time of five runs."""
    return least(work, repeats=5, clock=time.process_time)[0]


# --- tables -----------------------------------------------------------------------------------------------------------


def failing(scale: float) -> Iterator[list[str]]:
    """The old rule compared with the default terms, and these at other shares of dropouts."""
    cases = [(n, OLD, DROPOUTS) for n in (100, 1000)]
    cases += [(n, sharing(n, DEFAULT_ASSUMED), DROPOUTS) for n in SIZES]
    cases += [(n, sharing(n, DEFAULT_ASSUMED), dropouts) for n in (100, 1000) for dropouts in (0.1, 0.3, 0.33)]
    rounds, samples = max(1, round(scale * ROUNDS)), max(1, round(scale * SAMPLES))
    for n, shares, dropouts in cases:
        holders = (Holders.nearest if shares == OLD else Holders.random)(n, shares)
        generator = np.random.default_rng(n)
        failed = failures(holders, dropouts, rounds, generator)
        rare = failed < 100
        chance = failure_chance(holders, dropouts, samples, generator) if rare else failed / rounds
        yield [
            f"{n:,}{' (before)' if shares == OLD else ''}",
            f"{shares.holders}",
            f"{shares.threshold}",
            f"{dropouts:.0%}",
            f"{failed:,} of {rounds:,}",
            _chance(chance),
            _chance(union_bound(holders, dropouts)),
        ]


def costs(scale: float) -> Iterator[list[str]]:
    """The old rule compared with the default terms."""
    for n in (100, 1000):
        for shares in (OLD, sharing(n, DEFAULT_ASSUMED)):
            found = cost(n, shares)
            yield [
                f"{n:,}{' (before)' if shares == OLD else ''}",
                f"{shares.holders}",
                f"{shares.threshold}",
                _bytes(found.published),
                _bytes(found.fetched),
                _bytes(found.all_shares),
                f"{1000 * found.sealing:.0f} ms",
                f"{1000 * found.opening:.0f} ms",
                f"{found.recovering:.2g} s",
            ]


TABLES = {
    "Rounds that fail for want of shares": (
        failing,
        ["clients", "holders", "threshold", "drop out", "simulated rounds that failed", "chance", "n · P"],
    ),
    "What shares cost": (
        costs,
        [
            *("clients", "holders", "threshold", "a client publishes", "a holder fetches", "whoever recovers fetches"),
            *("seal", "open what it holds", "recover all secrets"),
        ],
    ),
}


def _chance(chance: float) -> str:
    return f"{chance:.2f}" if chance > 0.1 else f"{chance:.1e}"


def _bytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rounds and samples")
    options = parser.parse_args()
    for title, (make, head) in TABLES.items():
        print(f"### {title}\n\n{markdown(head, list(make(options.scale)), words=0)}\n")
