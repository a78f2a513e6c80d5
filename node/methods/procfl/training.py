"""Training in two stages: first one model of all clusters, then each cluster on its own (Xu et al. 2025, algorithm 1).

Sums are those of the masks, ``node.masking.ring``, so that a simulation and a federation compute the same bytes.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from fedgrove.node.base.tensors import Layout
from fedgrove.node.masking.ring import WORD, decode, encode

Cluster = tuple[int, ...]
"""Its members, ascending."""


def global_rounds(rounds: int, share: float) -> int:
    """How many of T rounds train one model: those with t < λT, t from 0."""
    if not 0 <= share <= 1:
        raise ValueError(f"the share of global rounds is {share}; set it from 0 to 1")
    return math.ceil(Fraction(str(share)) * rounds)


def cluster_mean(models: Sequence[np.ndarray], layout: Layout, bound: float) -> np.ndarray:
    """w_k = 1/n_k Σ wₙ: what a cluster's leader computes from its members' models.

    Parameters
    ----------
    models : sequence of float32 arrays of shape (d,)
        In any order.
    bound : float
        Largest absolute value allowed.

    Returns
    -------
    float32 array of shape (d,)
    """
    return weighted_mean(models, [Fraction(1, len(models))] * len(models), layout, bound)


def global_mean(clusters: Sequence[np.ndarray], layout: Layout, bound: float) -> np.ndarray:
    """w = 1/K Σ w_k: what the server computes from the clusters' models in the first stage."""
    return cluster_mean(clusters, layout, bound)


def weighted_mean(
    models: Sequence[np.ndarray], weights: Sequence[Fraction], layout: Layout, bound: float
) -> np.ndarray:
    """Σ ωₙ·wₙ for weights that sum to 1, as one masked sum gives it."""
    words = np.zeros(layout.length, WORD)
    for model, weight in zip(models, weights, strict=True):
        np.add(words, encode(model, layout, weight.numerator, weight.denominator, bound), out=words)
    return decode(words, 1, 1, bound)


def global_weights(clusters: Sequence[Cluster]) -> dict[int, Fraction]:
    """ωₙ = 1/K Σ_{k∋n} 1/n_k: how much of the global model is client n's, if it sends one model to all its clusters.

    With these weights one sum over everybody gives the global model, and no cluster's model need be seen.
    """
    weights: dict[int, Fraction] = {}
    for members in clusters:
        for client in members:
            weights[client] = weights.get(client, Fraction(0)) + Fraction(1, len(members) * len(clusters))
    return dict(sorted(weights.items()))


def choose_cluster(losses: Mapping[int, float]) -> int:
    """argmin_k f(w_k; Dₙ) over the clusters of a client: the first minimum; a loss that is not a number counts as ∞.

    Parameters
    ----------
    losses : mapping
        Loss on the client's own data by cluster, not empty.
    """
    return min(sorted(losses), key=lambda cluster: math.inf if math.isnan(losses[cluster]) else losses[cluster])


def personal_accuracy(counts: np.ndarray, per_label: np.ndarray) -> float:
    """Expected accuracy of a model on new data that are distributed like a client's.

    Parameters
    ----------
    counts : int64 array of shape (labels,)
        The client's label counts.
    per_label : float64 array of shape (labels,)
        The model's accuracy on the test samples of each label; so a model is tested once, whoever uses it.
    """
    return float(counts @ per_label / counts.sum())


def groups(choices: Mapping[int, int], clusters: int) -> tuple[Cluster, ...]:
    """Clients that train each cluster's model in a round of the second stage, in which everybody trains one.

    Parameters
    ----------
    choices : mapping
        Cluster by client.
    """
    found: list[list[int]] = [[] for _ in range(clusters)]
    for client, cluster in sorted(choices.items()):
        found[cluster].append(client)
    return tuple(map(tuple, found))


def exposed(sums: Sequence[Cluster]) -> tuple[int, ...]:
    """Clients whose models follow from the sums over these groups, if each sent one model to all of its groups.

    Two groups that differ in one client give it away, whatever masks hide; so do longer combinations. A client is
    exposed if its unit vector lies in the row space of the 0/1 matrix of groups and clients.
    """
    clients = sorted({client for group in sums for client in group})
    matrix = np.array([[client in group for client in clients] for group in map(set, sums)], dtype=np.float64)
    # The diagonal of the projection on the row space is 1 for such clients, and else smaller by far more than rounding.
    projection = np.linalg.pinv(matrix) @ matrix
    return tuple(client for client, own in zip(clients, projection.diagonal(), strict=True) if own > 1 - 1e-9)
