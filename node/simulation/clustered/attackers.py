"""Clients that poison a simulated training, and the uploads of all clients with theirs among them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np

from fedgrove.node.base.tensors import Layout, unflatten
from fedgrove.node.learning.samples import Samples
from fedgrove.node.masking.ring import WORD
from fedgrove.node.privacy.mechanism import Weight
from fedgrove.node.privacy.weighted import WeightedMean
from fedgrove.node.scenario.poisoning import Attack, AttackSettings
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.uploads import ClientPart, Encoder


@dataclass(frozen=True)
class Attackers:
    """Who attacks, from which round on; numbered as the scenario's clients, from 1."""

    clients: frozenset[int]
    settings: AttackSettings
    seed: int

    def at(self, number: int) -> frozenset[int]:
        """Who attacks in a round."""
        return self.clients if number >= self.settings.start else frozenset()

    @property
    def poison_samples(self) -> bool:
        """Whether they train on other samples than their own."""
        return type(self.settings.attack).samples is not Attack.samples

    def poisoned(self, training: Samples, parts: Sequence[np.ndarray], classes: int) -> Samples:
        """All training samples, the attackers' as they poison them."""
        x, y = training.x.copy(), training.y.copy()
        for client in sorted(self.clients):
            own = parts[client - 1]
            rng = np.random.default_rng([self.seed, client, 5])
            changed = self.settings.attack.samples(training.take(own), classes, rng)
            x[own], y[own] = changed.x, changed.y
        return Samples(x, y)

    def sent(self, trained: np.ndarray, start: np.ndarray, turn: ClientPart) -> np.ndarray:
        """The model that a client sends, before it is weighed."""
        if turn.client not in self.at(turn.round):
            return trained
        return self.settings.attack.model(trained, start, np.random.default_rng([self.seed, turn.client, turn.round]))


def attackers_of(scenario: Scenario, counts: np.ndarray) -> Attackers | None:
    """Who attacks in a scenario, of clients with these label counts; None where nobody does."""
    if scenario.attack is None:
        return None
    found = scenario.attack.attackers(counts, np.random.default_rng([scenario.seed, 4]))
    return Attackers(frozenset(client + 1 for client in found), scenario.attack, scenario.seed)


@dataclass(frozen=True)
class Sending(Encoder):
    """What clients, and the attackers among them, send.

    A client whose training diverged, or left the bound, sends the model that it began with, as in a federation. An
    attacker keeps its parameters within the bound, since it would be refused else.
    """

    bound: float
    attackers: Attackers | None = None

    def sent(self, trained: np.ndarray, start: np.ndarray, turn: ClientPart) -> np.ndarray:
        """The model that a client sends: float32 (parameters,), not the start itself."""
        model = trained
        if self.attackers is not None:
            model = self.attackers.sent(trained, start, turn)
            if turn.client in self.attackers.at(turn.round):
                model = np.clip(model, -self.bound, self.bound)
        fits = model.max() <= self.bound and model.min() >= -self.bound  # a NaN fails both
        return model if fits else start.copy()


@dataclass(frozen=True)
class Weighing(Sending):
    """Each model in fixed point times the weight of its client, as masked sums take it."""

    weights: Mapping[int, Fraction] = field(kw_only=True, repr=False)

    def encode(self, trained: np.ndarray, start: np.ndarray, layout: Layout, turn: ClientPart) -> np.ndarray:
        weight = self.weights[turn.client]
        counted = Weight(weight.numerator, weight.denominator)
        model = self.sent(trained, start, turn)
        return WeightedMean(layout, self.bound).encode(model, partial(unflatten, start, layout), counted, os.urandom)


@dataclass(frozen=True)
class Showing(Sending):
    """The model itself, bit by bit, for those who look at single models: a task may have one client only.

    Attributes
    ----------
    noise : float
        Length of the noise on it, in lengths of the update.
    """

    noise: float = 0.0
    seed: int = 0

    def encode(self, trained: np.ndarray, start: np.ndarray, layout: Layout, turn: ClientPart) -> np.ndarray:
        model = self.sent(trained, start, turn)
        if self.noise:
            deviation = self.noise * float(np.linalg.norm(model - start)) / np.sqrt(len(model))
            rng = np.random.default_rng([self.seed, turn.client, turn.round, 1])
            model = model + (deviation * rng.standard_normal(len(model))).astype(np.float32)
        return np.ascontiguousarray(model, "<f4").view(WORD)
