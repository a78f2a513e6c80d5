"""The paper's own masking (eq. 12–13), for comparison experiments only.

It protects nobody who needs protection: the noise is seeded with a number that everybody sees, half of the layers stay
bare, and one client that drops out spoils the sum.
"""

from collections.abc import Mapping, Sequence

import numpy as np

Layers = dict[str, np.ndarray]


def target_layers(names: Sequence[str], kappa: float) -> tuple[str, ...]:
    """l_target = {lᵢ}, i = 1 … ⌊κ·l_num⌋: the first ⌊κ·L⌋ layers of the model, in its own order."""
    return tuple(names[: int(kappa * len(names))])


def draw_noise(layers: Mapping[str, np.ndarray], targets: Sequence[str], generator: np.random.Generator) -> Layers:
    """Noise from N(0, 1) with the shapes of the target layers (float64)."""
    return {name: generator.standard_normal(layers[name].shape) for name in targets}


def subtract_noise(layers: Layers, noise: Mapping[str, np.ndarray]) -> None:
    """Eq. 12, in place: l ← l − noise, with a client's own noise."""
    for name, values in noise.items():
        layers[name] = layers[name] - values


def add_partner_noise(layers: Layers, samples: int, noise: Mapping[str, np.ndarray], partner_samples: int) -> None:
    """Eq. 13, in place: l ← l + (n_partner / n_own) · noise_partner."""
    for name, values in noise.items():
        layers[name] = layers[name] + partner_samples / samples * values


def paper_mask(
    models: Sequence[Mapping[str, np.ndarray]],
    samples: Sequence[int],
    partners: Sequence[Sequence[int]],
    seeds: Sequence[int],
    kappa: float = 0.5,
) -> list[Layers]:
    """Mask every client's model with every partner, pair after pair.

    Parameters
    ----------
    models : sequence of mappings, layer name to float array
        By position; copied, not changed.
    samples : sequence of int
        n by position.
    partners : sequence of sequences of int
        Partners in the cooperation tree.
    seeds : sequence of int
        Each client's random number of the round. One generator per client serves all of its pairs in turn, so that
        its noise differs from pair to pair.
    kappa : float
        Fraction of layers that are masked, rounded down.

    Returns
    -------
    list of dict
        Float64 layers; their average weighted by ``samples`` is that of ``models`` up to rounding.
    """
    masked = [{name: np.asarray(layer, np.float64) for name, layer in model.items()} for model in models]
    targets = target_layers(list(models[0]), kappa)
    generators = [np.random.default_rng(seed) for seed in seeds]
    for a, own in enumerate(partners):
        for b in own:
            if a < b:
                noise_a = draw_noise(masked[a], targets, generators[a])
                noise_b = draw_noise(masked[b], targets, generators[b])
                subtract_noise(masked[a], noise_a)
                subtract_noise(masked[b], noise_b)
                add_partner_noise(masked[a], samples[a], noise_b, samples[b])
                add_partner_noise(masked[b], samples[b], noise_a, samples[a])
    return masked
