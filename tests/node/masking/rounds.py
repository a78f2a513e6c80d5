"""A whole round of masking in memory: what the roles do with chain and store, without either."""

import hashlib
import random as stdlib_random
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.aggregate import Aggregate
from fedgrove.node.masking.client import RoundSecrets, mask_update, seal_shares
from fedgrove.node.masking.context import Participant, RoundContext
from fedgrove.node.masking.graph import Group, MaskGraph, build_graph
from fedgrove.node.masking.keys import Random
from fedgrove.node.masking.recovery import RecoveryRecord, recover
from fedgrove.node.masking.release import held_shares, release

CONTEXT = RoundContext(31337, "0x" + "5f" * 20, 7)
LAYOUT = Layout(("bias", "head", "kernel", "norm"), ((3,), (4, 2), (5, 2), ()))


def seeded(seed: int) -> Random:
    """A reproducible source of bytes in place of ``os.urandom``."""
    return stdlib_random.Random(seed).randbytes


def tree_partners(n: int) -> tuple[tuple[int, ...], ...]:
    """Partners along the cooperation tree by walking every node of it, written apart from chain.tree."""
    partners: list[set[int]] = [set() for _ in range(n)]
    nodes = [(0, n)]
    while nodes:
        lo, hi = nodes.pop()
        if hi - lo < 2:
            continue
        mid = lo + (hi - lo + 1) // 2
        for j in range(mid - lo):
            right = mid + min(j, hi - mid - 1)
            partners[lo + j].add(right)
            partners[right].add(lo + j)
        nodes += [(lo, mid), (mid, hi)]
    return tuple(tuple(sorted(own)) for own in partners)


@dataclass
class Round:
    """Clients, their secrets and models; every step as the roles would take it."""

    graph: MaskGraph
    secrets: list[RoundSecrets] = field(repr=False)
    vectors: list[np.ndarray]
    layout: Layout = LAYOUT
    bound: float = 8.0
    kappa: float = 1.0

    @classmethod
    def make(cls, n: int, seed: int = 0, *, layout: Layout = LAYOUT, bound: float = 8.0, kappa: float = 1.0, **options):
        random, generator = seeded(seed), np.random.default_rng(seed)
        secrets = [RoundSecrets.generate(random) for _ in range(n)]
        participants = tuple(
            Participant(p, 3 * p + 2, int(generator.integers(1, 500)), secrets[p].mask_key, secrets[p].seal_key)
            for p in range(n)
        )
        parted = tuple(Group.of(each, options.get("least", 0)) for each in options.get("groups", ()))
        options = {"seed": b"public seed", **options, "groups": parted}
        graph = build_graph(CONTEXT, participants, tree_partners(n), **options)
        vectors = [generator.uniform(-bound, bound, layout.length).astype(np.float32) for _ in range(n)]
        return cls(graph, secrets, vectors, layout, bound, kappa)

    def blob(self, position: int, seed: int = 1) -> bytes:
        return seal_shares(self.graph, position, self.secrets[position], seeded(1000 * seed + position))

    def masked(self, position: int, sharers: Collection[int]) -> np.ndarray:
        return mask_update(
            self.graph,
            position,
            self.secrets[position],
            sharers,
            self.vectors[position],
            self.layout,
            bound=self.bound,
            kappa=self.kappa,
        )

    def released(
        self,
        position: int,
        blobs: dict[int, bytes],
        survivors: Collection[int],
        sharers: Collection[int] | None = None,
        **options,
    ) -> bytes:
        """What a holder releases; by default those whose blobs are there are those that shared."""
        held = held_shares(self.graph, position, self.secrets[position], blobs)
        return release(
            self.graph,
            position,
            held,
            blobs if sharers is None else sharers,
            survivors,
            **{"committed": position in survivors, "kappa": self.kappa, "tensors": len(self.layout.names)} | options,
        )

    def seed_hashes(self, survivors: Collection[int]) -> dict[int, bytes]:
        return {p: hashlib.sha256(self.secrets[p].self_seed).digest() for p in survivors}

    def record(
        self,
        blobs: dict[int, bytes],
        survivors: Collection[int],
        holders: Collection[int],
        left_out: Collection[int] = (),
    ) -> RecoveryRecord:
        releases = {p: self.released(p, blobs, survivors) for p in holders}
        return self.recovered(blobs, survivors, releases, left_out)

    def recovered(
        self,
        blobs: dict[int, bytes],
        survivors: Collection[int],
        releases: dict[int, bytes],
        left_out: Collection[int] = (),
    ) -> RecoveryRecord:
        hashes = self.seed_hashes(survivors)
        return recover(self.graph, set(blobs), survivors, hashes, releases, blobs, left_out)

    def closed(self, sharers: Collection[int], survivors: Collection[int], record: RecoveryRecord) -> np.ndarray:
        aggregate = Aggregate(self.graph, sharers, survivors, record, self.layout, self.bound, kappa=self.kappa)
        for position in record.self_seeds:
            aggregate.add(position, [self.masked(position, sharers).tobytes()])
        return aggregate.close()

    def integer_mean(self, survivors: Collection[int]) -> np.ndarray:
        """The oracle: Python integers and floats, one parameter at a time, nothing of node.masking but the formula."""
        bits = {8.0: 27, 1.0: 30, 0.5: 31, 100.0: 23}[self.bound]
        total = sum(p.samples for p in self.graph.participants)
        sums = [0] * self.layout.length
        for position in survivors:
            scale = (self.graph.participants[position].samples << bits) / total
            for i, value in enumerate(self.vectors[position]):
                sums[i] += round(float(value) * scale)
        divisor = (sum(self.graph.participants[p].samples for p in survivors) << bits) / total
        return np.array([value / divisor for value in sums], np.float32)
