"""Who may train which model in which round, and with what weight: IFCA, one model for all.

Clients are numbered from 1, models from 0.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Protocol

from fedgrove.node.methods.procfl.training import Cluster


class SharingScheme(Protocol):
    """How a scenario's clients share models."""

    def models(self, number: int) -> int:
        """How many there are in a round."""
        ...

    def options(self, client: int, number: int) -> tuple[int, ...]:
        """The models that a client may train, and use, in a round: the first unless another suits its data better."""
        ...

    def groups(self, choices: Mapping[int, int]) -> dict[int, Cluster]:
        """Who trains each model, by its number, where these clients chose these models; without models of nobody."""
        ...


class OneModel:
    """FedAvg: one model, clients weighed by their samples."""

    def __init__(self, samples: Mapping[int, int]) -> None:
        self._samples = samples

    def models(self, number: int) -> int:
        return 1

    def options(self, client: int, number: int) -> tuple[int, ...]:
        return (0,)

    def groups(self, choices: Mapping[int, int]) -> dict[int, Cluster]:
        chosen = sorted(set(choices.values()))
        return {number: tuple(client for client in choices if choices[client] == number) for number in chosen}

    def weights(self, group: Sequence[int]) -> dict[int, Fraction]:
        """How much each client of a model's group counts in its mean; they sum to 1."""
        total = sum(self._samples[client] for client in group)
        return {client: Fraction(self._samples[client], total) for client in group}


class Ifca(OneModel):
    """IFCA (Ghosh et al. 2020): all clients may train any of k models, weighed by their samples."""

    def __init__(self, samples: Mapping[int, int], models: int) -> None:
        super().__init__(samples)
        self._models = models

    def models(self, number: int) -> int:
        return self._models

    def options(self, client: int, number: int) -> tuple[int, ...]:
        return tuple(range(self._models))
