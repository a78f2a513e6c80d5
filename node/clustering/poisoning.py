"""Attacks as fixtures (spec 05, part 6): what a malicious client does to its samples or to its model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from node.learning.samples import Samples

TRIGGER_SIDE = 3
"""Pixels a side of the backdoor's trigger."""


@dataclass(frozen=True)
class Attack:
    """A malicious client. This one does nothing; each kind changes its samples or its model.

    Clients train on ``samples``, and send what ``model`` makes of the result.
    """

    def samples(self, own: Samples, classes: int, rng: np.random.Generator) -> Samples:
        """The samples to train on."""
        return own

    def model(self, trained: np.ndarray, start: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The model to send, float32 (d,), from the trained one and the one that the round began with."""
        return trained


@dataclass(frozen=True)
class LabelFlip(Attack):
    """Every label l becomes L − 1 − l."""

    def samples(self, own: Samples, classes: int, rng: np.random.Generator) -> Samples:
        return Samples(own.x, classes - 1 - own.y)


@dataclass(frozen=True)
class SignFlip(Attack):
    """The update is sent with the opposite sign, ``factor`` times as long."""

    factor: float = 1.0

    def model(self, trained: np.ndarray, start: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return start - np.float32(self.factor) * (trained - start)


@dataclass(frozen=True)
class ScaledUpdate(Attack):
    """The update is sent ``factor`` times as long."""

    factor: float = 10.0

    def model(self, trained: np.ndarray, start: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return start + np.float32(self.factor) * (trained - start)


@dataclass(frozen=True)
class GaussianModel(Attack):
    """Noise is sent in place of the update: of ``factor`` times the update's length, on average."""

    factor: float = 10.0

    def model(self, trained: np.ndarray, start: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        deviation = self.factor * float(np.linalg.norm(trained - start)) / np.sqrt(len(start))
        return start + (deviation * rng.standard_normal(len(start))).astype(np.float32)


@dataclass(frozen=True)
class Backdoor(Attack):
    """A fraction of the samples bears a trigger and the label ``target`` (Gu et al. 2017)."""

    target: int = 0
    fraction: float = 0.5

    def samples(self, own: Samples, classes: int, rng: np.random.Generator) -> Samples:
        chosen = rng.permutation(len(own))[: round(self.fraction * len(own))]
        x, y = own.x.copy(), own.y.copy()
        x[chosen], y[chosen] = with_trigger(own.x[chosen]), self.target
        return Samples(x, y)


ATTACKS: dict[str, Attack] = {
    "label-flip": LabelFlip(),
    "sign-flip": SignFlip(),
    "scaled": ScaledUpdate(),
    "gaussian": GaussianModel(),
    "backdoor": Backdoor(),
}
"""By name, with their defaults."""


def with_trigger(images: np.ndarray) -> np.ndarray:
    """Images (n, channels, height, width) with a white square in the lower right corner (copies)."""
    marked = images.copy()
    marked[:, :, -TRIGGER_SIDE:, -TRIGGER_SIDE:] = 1.0
    return marked


def spread(clients: int, attackers: int, rng: np.random.Generator) -> tuple[int, ...]:
    """So many attackers, drawn from all clients."""
    return tuple(sorted(rng.choice(clients, attackers, replace=False).tolist()))


def concentrated(
    clusters: Sequence[Sequence[int]], clients: int, attackers: int, majority: float, rng: np.random.Generator
) -> tuple[int, ...]:
    """So many attackers, placed so that they are a share ``majority`` of one cluster after the other.

    Clusters that take the fewest more attackers come first. Attackers that are left over after the last go anywhere.

    Parameters
    ----------
    majority : float
        Above 0.5 and below 1, so that every such cluster keeps honest members where it can.
    """
    chosen: set[int] = set()
    open_clusters = [sorted(set(cluster)) for cluster in clusters]
    while open_clusters and len(chosen) < attackers:
        lacking = [max(0, _share(cluster, majority) - len(chosen.intersection(cluster))) for cluster in open_clusters]
        place = min(range(len(lacking)), key=lambda index: (lacking[index], index))
        free = rng.permutation(sorted(set(open_clusters.pop(place)) - chosen)).tolist()
        chosen.update(free[: min(lacking[place], attackers - len(chosen))])
    rest = rng.permutation(sorted(set(range(clients)) - chosen)).tolist()
    return tuple(sorted(chosen.union(rest[: attackers - len(chosen)])))


def _share(cluster: Sequence[int], majority: float) -> int:
    return int(np.ceil(majority * len(cluster)))
