"""Who may train which model in which round, and with what weight: ProCFL, IFCA, one model for all.

Clients are numbered from 1, models from 0.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Protocol

from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.training import Cluster, global_rounds, global_weights
from fedgrove.node.simulation.clustered.similarity import InitialClusters

# Of fewer clients masks hide no model, so a cluster's model stays when fewer of them take part.
FEWEST = 3


class SharingScheme(Protocol):
    """How a plan's clients share models."""

    def models(self, number: int) -> int:
        """How many there are in a round."""
        ...

    def options(self, client: int, number: int) -> tuple[int, ...]:
        """The models that a client may train, and use, in a round: the first unless another suits its data better."""
        ...

    def may_train(self, group: Sequence[int], number: int) -> bool:
        """Whether this many may train a model; else it stays as it is."""
        ...

    def weights(self, group: Sequence[int], number: int) -> dict[int, Fraction]:
        """How much each client of a model's group counts in its mean; they sum to 1."""
        ...


class OneModel:
    """FedAvg: one model, clients weighed by their samples."""

    def __init__(self, samples: Mapping[int, int]) -> None:
        self._samples = samples

    def models(self, number: int) -> int:
        return 1

    def options(self, client: int, number: int) -> tuple[int, ...]:
        return (0,)

    def may_train(self, group: Sequence[int], number: int) -> bool:
        return True

    def weights(self, group: Sequence[int], number: int) -> dict[int, Fraction]:
        return _shares({client: Fraction(self._samples[client]) for client in group})


class Ifca(OneModel):
    """IFCA (Ghosh et al. 2020): all clients may train any of k models, weighed by their samples."""

    def __init__(self, samples: Mapping[int, int], models: int) -> None:
        super().__init__(samples)
        self._models = models

    def models(self, number: int) -> int:
        return self._models

    def options(self, client: int, number: int) -> tuple[int, ...]:
        return tuple(range(self._models))


class ProCflScheme:
    """ProCFL (Xu et al. 2025, algorithm 1): one model up to round λT, then one a cluster.

    Where a client's clusters have models that suit it equally, as in the first round on their own, it takes the cluster
    whose members' data are most like its own.
    """

    def __init__(self, found: InitialClusters, settings: ProCflSettings, rounds: int) -> None:
        self.last_global = global_rounds(rounds, settings.global_share)
        self.clusters = list(found.members)
        self._ism = found.similarity.ism
        self._last_cluster: dict[int, int] = {}  # of those who were expelled

    def models(self, number: int) -> int:
        return 1 if number <= self.last_global else len(self.clusters)

    def options(self, client: int, number: int) -> tuple[int, ...]:
        if number <= self.last_global:
            return (0,)
        if client in self._last_cluster:
            return (self._last_cluster[client],)
        own = [cluster for cluster, members in enumerate(self.clusters) if client in members]
        return tuple(sorted(own, key=lambda cluster: (-self._likeness(client, cluster), cluster)))

    def may_train(self, group: Sequence[int], number: int) -> bool:
        return number <= self.last_global or len(group) >= FEWEST

    def weights(self, group: Sequence[int], number: int) -> dict[int, Fraction]:
        if number > self.last_global:
            return dict.fromkeys(group, Fraction(1, len(group)))
        weights = global_weights([cluster for cluster in self.clusters if cluster])
        return _shares({client: weights[client] for client in group})

    def parts(self, clients: Iterable[int]) -> dict[int, Cluster]:
        """Clients by the cluster that is most like them: groups that do not overlap, whose sums show nobody's model."""
        groups: dict[int, list[int]] = {}
        for client in sorted(clients):
            own = self.options(client, self.last_global + 1)
            groups.setdefault(own[0], []).append(client)
        return {number: tuple(group) for number, group in sorted(groups.items())}

    def expel(self, cluster: int, clients: Collection[int]) -> None:
        """Remove clients of a cluster from all clusters; they keep the use of its model. The others go on."""
        self._last_cluster.update(dict.fromkeys(clients, cluster))
        self.clusters = [tuple(client for client in members if client not in clients) for members in self.clusters]

    def _likeness(self, client: int, number: int) -> float:
        members = self.clusters[number]
        return float(self._ism[client - 1, [member - 1 for member in members]].mean())


def _shares(weights: Mapping[int, Fraction]) -> dict[int, Fraction]:
    total = sum(weights.values())
    return {client: weight / total for client, weight in weights.items()}
