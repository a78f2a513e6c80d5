"""Labels from the gradient of the last layer (iDLG: Zhao et al. 2020; for batches: Wainakh et al. 2022, LLG).

With the mean cross-entropy of n images, ∂/∂b_c = mean p_c − n_c/n: negative where label c was present, as the
probabilities p_c of the others are positive. Without a bias the sum of a row of ∂/∂W does the same, for the inputs of
the last layer come out of ReLU and are not negative.
"""

from collections.abc import Mapping

import numpy as np


def recover_labels(gradient: Mapping[str, np.ndarray], count: int, layer: str = "output") -> np.ndarray:
    """The labels of a client's images.

    Parameters
    ----------
    gradient : mapping of str to float array
        Of the mean loss, or a positive multiple of it, by tensor.
    count : int
        n, the number of images.
    layer : str
        Name of the last layer.

    Returns
    -------
    int64 array of shape (count,), ascending
        The most negative entry takes a label; what a label counts for is what all negative entries sum to, over n.
    """
    slopes = gradient.get(f"{layer}.bias")
    slopes = gradient[f"{layer}.weight"].sum(1) if slopes is None else slopes
    left = slopes.astype(np.float64)
    weight = -left[left < 0].sum() / count
    labels = []
    for _ in range(count):
        labels.append(int(left.argmin()))
        left[labels[-1]] += weight
    return np.sort(np.array(labels, dtype=np.int64))
