"""No mechanism of differential privacy: what masks leave is the exact weighted mean."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedgrove.node.base.tensors import Layout, add, largest
from fedgrove.node.masking.keys import Random
from fedgrove.node.masking.limits import Limits
from fedgrove.node.masking.ring import decode, encode, kept_within, largest_sum, values_beyond
from fedgrove.node.privacy.mechanism import Mechanism, Rates, Start, Weight
from fedgrove.node.privacy.settings import LocalSettings, PrivacySettings

Masked = Literal["weights", "delta"]
"""What uploads are made of: the trained weights, or the update against the round's model."""


@dataclass(frozen=True)
class WeightedMean(Mechanism):
    """Weights or updates in fixed point, each value at most ``bound``, times the client's share of the samples.

    ``norm`` is the largest Euclidean norm of an update; one that is longer is scaled down to it.
    """

    hides_divergence: ClassVar[bool] = False
    weighs_samples: ClassVar[bool] = True

    layout: Layout
    bound: float
    masked: Masked = "weights"
    norm: float = math.inf

    def encode(
        self, trained: np.ndarray, start: Start, weight: Weight, random: Random, rates: Rates = ()
    ) -> np.ndarray:
        """As ``Mechanism``; InvalidContent where a value is not finite, or the model began beyond the bound."""
        vector = self.vector(trained, start, random)
        return encode(vector, self.layout, weight.samples, weight.total, self.bound, in_place=True)

    def vector(self, trained: np.ndarray, start: Start, random: Random) -> np.ndarray:
        """The values to sum, cut off at the bound: float32 (d,), written over the trained ones.

        A model may come to lie at the bound by what others upload. A client must be able to train from it: if it
        refused to upload what training carried beyond, nothing could ever lead the model back. Only where the terms'
        own first model is beyond their bound it refuses, as the terms are wrong.
        """
        bare = self.change(trained, start) if self.masked == "delta" else trained
        longer = self._longer(bare)
        if 1 < longer < math.inf:
            bare *= np.float32(1 / longer)
        if self._fits(bare):
            return bare
        fits = self.masked == "delta" or largest(start()) <= np.float32(self.bound)
        return kept_within(bare, self.bound) if fits else bare

    def cut_off(self, trained: np.ndarray, start: Start) -> int:
        """How many values ``encode`` would cut off at the bound; an update is written over the trained ones.

        None of one that it scales down: the norm is below the bound.
        """
        bare = self.change(trained, start) if self.masked == "delta" else trained
        return 0 if self._fits(bare) or self._longer(bare) > 1 else values_beyond(bare, self.bound)

    def shortened(self, trained: np.ndarray, start: Start) -> float:
        """By which factor ``encode`` would scale an update down; 1 where it is short enough. It is written over."""
        return max(1.0, self._longer(self.change(trained, start))) if self.masked == "delta" else 1.0

    def _longer(self, vector: np.ndarray) -> float:
        """How many times as long as ``norm`` a vector is; infinite or NaN where a value is not finite."""
        if self.norm == math.inf:
            return 0.0
        return math.sqrt(float(np.einsum("i,i->", vector, vector, dtype=np.float64))) / self.norm

    def _fits(self, vector: np.ndarray) -> bool:
        """Whether all values are within the bound, which is the usual case and found in no time."""
        bound = np.float32(self.bound)
        return len(vector) == 0 or bool(vector.max() <= bound and vector.min() >= -bound)  # a NaN fails both

    def mean(self, words: np.ndarray, start: Start, weight: Weight) -> np.ndarray:
        # Rounding may carry a mean of values at the bound a little beyond it.
        vector = kept_within(decode(words, weight.samples, weight.total, self.bound, in_place=True), self.bound)
        if self.masked == "delta":
            add(vector, start())
        return vector

    def limits(self, samples: Sequence[int], total: int) -> Limits:
        """The largest sum of honest uploads of clients with these samples."""
        return Limits(largest_sum(samples, total, self.bound))


def bound_of_weights(privacy: PrivacySettings | None, masked: Masked, bound: float) -> float | None:
    """The bound on the model's values, where uploads are weights; None where they are updates."""
    sums_weights = masked == "weights" and (privacy is None or isinstance(privacy, LocalSettings))
    return bound if sums_weights else None
