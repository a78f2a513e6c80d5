"""Small plans and data for simulations."""

import numpy as np
import pytest
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.samples import Dataset, Loaded, Samples
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.simulation.plan import Plan

# Rates at which digits are learnt visibly within a few rounds.
QUICK = TrainingSettings(epochs=2, batch_size=16, learning_rate=0.05, momentum=0.9)


def small_plan(**changes) -> Plan:
    """Twelve clients, five drawn, three rounds on some of the digits."""
    values = {"clients": 12, "sampled": 0.5, "rounds": 3, "training": QUICK, "train_samples": 400, "seed": 7}
    return Plan(**{**values, **changes})


def generated(count: int, side: int = 4, classes: int = 4) -> Loaded:
    """Random images of the smallest size that a model takes, as many as wanted."""
    rng = np.random.default_rng(0)
    parts = []
    for size in (count, 200):
        y = np.arange(size, dtype=np.int64) % classes
        x = rng.random((size, 1, side, side), dtype=np.float32) * np.float32(0.5)
        x[np.arange(size), 0, y % side] += np.float32(0.5)
        parts.append(Samples(x, y))
    return Loaded("generated", classes, *parts)


@pytest.fixture(scope="session")
def digits() -> Dataset:
    return load_dataset("digits")
