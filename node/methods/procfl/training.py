"""Two stages of training: one model of all clusters, then each cluster on its own (Xu et al. 2025, algorithm 1)."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated

from msgspec import Meta

MAX_CLIENT = (1 << 32) - 2
"""The largest number of a client: the one above it stands for everybody (``node.methods.procfl.messages``)."""

Client = Annotated[int, Meta(ge=1, le=MAX_CLIENT)]

Cluster = tuple[Client, ...]
"""Its members, ascending."""


def global_rounds(rounds: int, share: float) -> int:
    """How many of T rounds train one model: those with t < λT, t from 0."""
    return math.ceil(Fraction(str(share)) * rounds)


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
