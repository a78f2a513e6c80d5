"""A round of bounded sums in memory up to the uploads, of members some of whom will collude."""

import hashlib
from functools import cached_property, lru_cache

import numpy as np
import pytest

from fedgrove.node.masking.bounds import sketch
from fedgrove.node.masking.bounds.edges import SketchedMask, sketched_masks
from fedgrove.node.masking.bounds.sketch import Sketch, norm_limit
from fedgrove.node.masking.bounds.vouching import Bounds, Setting, vouch
from fedgrove.node.masking.client import mask_keys
from fedgrove.node.masking.parameters import Sharing
from fedgrove.node.masking.prg import Mask, MaskKey, apply_masks
from fedgrove.node.masking.ring import WORD
from tests.node.masking.rounds import Round, seeded

WORDS, METRICS, WIDTH = 600, 1, 64
MEMBERS, COLLUDERS = 12, 3
BITS, NORM, METRIC = 20, 4.0, 1000
"""An update is at most 4 units of 2²⁰ long, and a metric at most 1,000."""


@lru_cache(maxsize=8)
def keys(seed: int) -> Round:
    """Members and their secrets."""
    return Round.make(MEMBERS, seed, mode="pairwise", shares=Sharing(MEMBERS - 1, 6))


class Game:
    """One round up to the uploads: who plays what, and what lies under the masks."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.random = seeded(seed)
        self.round = keys(seed % 8)
        order = self.generator.permutation(MEMBERS).tolist()
        self.never, self.late, *self.colluders = order[: 2 + COLLUDERS]
        self.honest = sorted(order[2 + COLLUDERS :])
        self.innocent = {p: self.small() for p in range(MEMBERS)}
        self.clear = dict(self.innocent)
        self.silent: set[int] = set()

    def hide(self, monster: np.ndarray) -> None:
        """Put a vector, int64 of shape (d + μ,), under the masks of the first colluder."""
        self.add(self.colluders[0], monster)

    def add(self, colluder: int, vector: np.ndarray) -> None:
        """Send this in addition."""
        self.clear[colluder] = (self.clear[colluder] + vector.astype(np.int64)).astype(WORD)

    def small(self) -> np.ndarray:
        """An update within its limit, and a metric."""
        vector = self.generator.normal(size=WORDS)
        vector *= NORM * self.generator.uniform(0.3, 1) * 2**BITS / np.linalg.norm(vector)
        return np.append(np.rint(vector).astype(np.int64), self.generator.integers(0, METRIC)).astype(WORD)

    def masks(self, position: int) -> list[MaskKey]:
        return mask_keys(self.round.graph, position, self.round.secrets[position], range(MEMBERS))

    @cached_property
    def uploads(self) -> dict[int, np.ndarray]:
        """y by position; nothing under masks may change any more."""
        found: dict[int, np.ndarray] = {}
        for position in range(MEMBERS):
            if position != self.never:
                found[position] = self.clear[position].copy()
                everything = ((0, WORDS + METRICS),)
                apply_masks(found[position], [Mask(k.key, k.subtract, everything) for k in self.masks(position)])
        return found

    @cached_property
    def setting(self) -> Setting:
        sketch = Sketch(self.random(32), WORDS, WIDTH, METRICS)
        bounds = Bounds(norm_limit(NORM, 1, 1, BITS, WORDS), (METRIC,))
        digests = {p: hashlib.sha256(y.tobytes()).digest() for p, y in self.uploads.items()}
        return Setting(self.round.graph, frozenset(range(MEMBERS)), sketch, digests, dict.fromkeys(digests, bounds))

    def sketched(self, position: int) -> tuple[list[MaskKey], list[SketchedMask]]:
        listed = self.masks(position)
        return listed, sketched_masks(self.setting.sketch, listed)

    def honest_vouchers(self) -> dict[int, bytes]:
        return {p: self.vouched(p) for p in self.honest}

    def vouched(self, position: int) -> bytes:
        return vouch(self.setting, position, self.round.secrets[position], self.uploads[position], self.random)


@pytest.fixture
def small_sketch(monkeypatch):
    """Fewer buckets in the first stage, for short vectors, and no stretching."""
    monkeypatch.setattr(sketch, "_BUCKETS_1", 256)
    monkeypatch.setattr(sketch, "STRETCHING", 1)
