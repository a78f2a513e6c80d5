"""Attacks as fixtures: what a malicious client does to its samples or to its model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from fedgrove.common.settings import Rate, Settings
from fedgrove.node.learning.samples import Samples
from fedgrove.node.methods.procfl.cover import candidates, greedy_cover
from fedgrove.node.methods.procfl.similarity import in_the_clear

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

    def aim(self, test: Samples) -> Samples | None:
        """Samples, made of those for tests, that a model gets right as far as the attack reached a hidden aim.

        None where it has none: then it shows as lost accuracy.
        """
        return None


@dataclass(frozen=True)
class Factored(Attack):
    """An attack with a strength."""

    factor: float = 1.0


@dataclass(frozen=True)
class LabelFlip(Attack):
    """Every label l becomes L − 1 − l."""

    def samples(self, own: Samples, classes: int, rng: np.random.Generator) -> Samples:
        return Samples(own.x, classes - 1 - own.y)


@dataclass(frozen=True)
class SignFlip(Factored):
    """The update is sent with the opposite sign, ``factor`` times as long."""

    factor: float = 1.0

    def model(self, trained: np.ndarray, start: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return start - np.float32(self.factor) * (trained - start)


@dataclass(frozen=True)
class ScaledUpdate(Factored):
    """The update is sent ``factor`` times as long."""

    factor: float = 10.0

    def model(self, trained: np.ndarray, start: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return start + np.float32(self.factor) * (trained - start)


@dataclass(frozen=True)
class GaussianModel(Factored):
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

    def aim(self, test: Samples) -> Samples | None:
        others = test.take(np.flatnonzero(test.y != self.target))
        return Samples(with_trigger(others.x), np.full_like(others.y, self.target))


ATTACKS: dict[str, Attack] = {
    "label-flip": LabelFlip(),
    "sign-flip": SignFlip(),
    "scaled": ScaledUpdate(),
    "gaussian": GaussianModel(),
    "backdoor": Backdoor(),
}
"""By name, with their defaults."""


@dataclass(frozen=True)
class AttackSettings(Settings):
    """Who attacks a simulated federation, how, and since when.

    Attributes
    ----------
    kind : str
        One of ``ATTACKS``.
    share : float
        Fraction of the clients that attack.
    placement : str
        ``spread`` over all clients; ``concentrated`` so that they are a majority in some clusters.
    majority : float
        ``concentrated``: the attackers' share of each of these clusters.
    alpha : float
        ``concentrated``: similarity threshold that defines the clusters, whatever method is attacked.
    factor : float
        Length of the sent update relative to the honest one (sign-flip, scaled, gaussian); 0 keeps the default.
    start : int
        Round of the first attack; attackers behave honestly before it.
    """

    kind: str = "label-flip"
    share: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    placement: Literal["spread", "concentrated"] = "spread"
    majority: Annotated[float, Meta(gt=0.5, le=1)] = 0.7
    alpha: Rate = 0.3
    factor: Annotated[float, Meta(ge=0, le=1000, description="from 0 (the default) to 1000")] = 0.0
    start: Annotated[int, Meta(ge=1, le=100_000, description="a round from 1 to 100000")] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.kind in ATTACKS, "kind", f"one of {', '.join(ATTACKS)}")
        fine = not self.factor or hasattr(ATTACKS[self.kind], "factor")
        self.require(fine, "factor", f"left out for {self.kind}")

    @property
    def attack(self) -> Attack:
        """What an attacker does."""
        known = ATTACKS[self.kind]
        return replace(known, factor=self.factor) if self.factor and isinstance(known, Factored) else known

    def attackers(self, counts: np.ndarray, rng: np.random.Generator) -> tuple[int, ...]:
        """Who attacks, of clients with these label counts, int64 (clients, classes)."""
        clients = len(counts)
        number = round(self.share * clients)
        if self.placement == "spread":
            return spread(clients, number, rng)
        clusters = [found.members for found in greedy_cover(candidates(in_the_clear(counts), self.alpha))]
        return concentrated(clusters, clients, number, self.majority, rng)


def with_trigger(images: np.ndarray) -> np.ndarray:
    """Images (n, channels, height, width) with a white square in the lower right corner (copies)."""
    marked = images.copy()
    marked[:, :, -TRIGGER_SIDE:, -TRIGGER_SIDE:] = 1.0
    return marked


def spread(clients: int, attackers: int, rng: np.random.Generator) -> tuple[int, ...]:
    """This many attackers, drawn from all clients."""
    return tuple(sorted(rng.choice(clients, attackers, replace=False).tolist()))


def concentrated(
    clusters: Sequence[Sequence[int]], clients: int, attackers: int, majority: float, rng: np.random.Generator
) -> tuple[int, ...]:
    """This many attackers, placed so that they are a share ``majority`` of one cluster after the other.

    Clusters that take the fewest more attackers come first. Attackers that are left over after the last go anywhere.

    Parameters
    ----------
    majority : float
        Above 0.5 and below 1, so that every one of these clusters keeps honest members where it can.
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
