"""How good centres are: the seed's induced loss (definition 3.1, eq. 2) and the loss that a user sees."""

import numpy as np

from fedgrove.node.methods.kmeans.clustering import squared_distances


def nearest_loss(points: np.ndarray, centres: np.ndarray) -> float:
    """Σ over points of the squared distance from the nearest centre (eq. 1)."""
    return float(squared_distances(points, centres).min(axis=1).sum())


def induced_loss(points: np.ndarray, centres: np.ndarray, labels: np.ndarray) -> float:
    """Σ over points of the squared distance from the centre that their local cluster was assigned to (eq. 2).

    Parameters
    ----------
    labels : int array of shape (n,)
        That centre of each point: the one to which the server assigned the local centroid of the point's client.
    """
    difference = points - centres[labels]
    return float(np.einsum("ij,ij->", difference, difference))
