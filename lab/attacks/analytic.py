"""The input of a fully connected layer, exactly, from its gradients (Geiping et al. 2020, proposition 3.1).

For y = Wx + b the gradients are ∂/∂W = δxᵀ and ∂/∂b = δ, so each row of ∂/∂W is a multiple of x. For one image x is
exact. For several it is a mixture of their inputs.
"""

import numpy as np


def layer_input(weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """What went into the layer.

    Parameters
    ----------
    weight : float array (units, inputs)
        ∂/∂W, or a multiple of it.
    bias : float array (units,), optional
        ∂/∂b, the same multiple of it. Without it x is found up to a factor, and scaled to a maximum of 1: its inputs
        are taken to be pixels in [0, 1], at least one of them white.

    Returns
    -------
    float64 array (inputs,)
        The least-squares solution over all units; zero where no unit has a gradient.
    """
    rows = weight.astype(np.float64)
    if bias is not None:
        slopes = bias.astype(np.float64)
        squares = slopes @ slopes
        return slopes @ rows / squares if squares else np.zeros(rows.shape[1])
    direction = _principal_row(rows)
    peak = direction[np.abs(direction).argmax()]
    return direction / peak if peak else direction


def _principal_row(rows: np.ndarray) -> np.ndarray:
    """The first right singular vector, by power iteration from the longest row."""
    vector = rows[np.square(rows).sum(1).argmax()]
    for _ in range(30):
        length = np.linalg.norm(vector)
        if not length:
            return vector
        vector = rows.T @ (rows @ (vector / length))
    return vector
