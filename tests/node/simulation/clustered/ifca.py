"""IFCA (Ghosh et al. 2020) by its algorithm: k models, and every client trains the one that suits its data best.

Clients see all k models in every round, and the server learns which of them a client chose.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from fedgrove.node.base.tensors import Layout
from fedgrove.node.methods.procfl.training import choose_cluster
from tests.node.methods.procfl.means import weighted_mean


def estimate(losses: np.ndarray) -> np.ndarray:
    """The cluster of every client: argmin_k F(w_k; Dᵢ) (algorithm 1, line 6).

    Parameters
    ----------
    losses : float array of shape (clients, k)
        Of each model on each client's data; NaN counts as ∞.

    Returns
    -------
    int64 array of shape (clients,)
    """
    return np.array([choose_cluster(dict(enumerate(row))) for row in losses.tolist()], dtype=np.int64)


def average(
    current: Sequence[np.ndarray],
    trained: Mapping[int, np.ndarray],
    choices: Mapping[int, int],
    samples: Mapping[int, int],
    layout: Layout,
    bound: float,
) -> tuple[np.ndarray, ...]:
    """Model averaging (algorithm 1, option II): each model becomes the mean of what its clients made of it.

    Parameters
    ----------
    current : sequence of float32 arrays of shape (d,)
        The k models; one that nobody chose stays.
    trained : mapping
        Model by client.
    choices : mapping
        Cluster by client.
    samples : mapping
        nᵢ by client, the weights of the mean.
    """
    following = list(current)
    for cluster in sorted(set(choices.values())):
        clients = sorted(client for client, choice in choices.items() if choice == cluster)
        total = sum(samples[client] for client in clients)
        weights = [Fraction(samples[client], total) for client in clients]
        following[cluster] = weighted_mean([trained[client] for client in clients], weights, layout, bound)
    return tuple(following)
