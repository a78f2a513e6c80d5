"""Small plans and data for simulations."""

from itertools import islice

import numpy as np
import pytest

from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.samples import Dataset, Samples
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.scenario.reading import MANY
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.executors import InlineExecutor
from fedgrove.node.simulation.kinds import simulation_of

# Rates at which digits are learnt visibly within a few rounds.
QUICK = TrainingSettings(epochs=2, batch_size=16, learning_rate=0.05, momentum=0.9)


SHORT = {
    **dict.fromkeys(("dataset", "clients", "train_samples", "test_samples", "validation", "shared_per_class"), "cast"),
    **dict.fromkeys(("evaluate_every", "probe_every", "device", "together"), "run"),
    **dict.fromkeys(("rounds", "seed", "patience", "sampling_rate"), "federation"),
    **{"bound": "masking", "masked": "masking", "options": "strategy"},
}
"""Parts of a scenario in which keys are that the tests change often."""


def changed(scenario: Scenario, **values) -> Scenario:
    """A scenario with other values of keys, by the names that they have in their parts, and of whole parts."""
    for name, value in values.items():
        part = SHORT.get(name)
        if name in ("strategy", "model") and isinstance(value, str):
            scenario = scenario.changed(**{name: {"name": value}})
        else:
            scenario = scenario.changed(**({name: value} if part is None else {part: {name: value}}))
    return scenario


def small_plan(**changes) -> Scenario:
    """Twelve clients, five drawn, three rounds on some of the digits."""
    values = {"clients": 12, "sampling_rate": 0.5, "rounds": 3, "training": QUICK, "train_samples": 400, "seed": 7}
    return changed(MANY, **{**values, **changes})


def simulate(plan, subject, executor=None, workers=1, directory=None, resume=False, rounds=None):
    """The simulation of a scenario on a data set or an opened task, after all its rounds or only so many."""
    simulation = simulation_of(plan, subject, executor or InlineExecutor(), workers, directory, resume)
    results = simulation.run()
    told = tuple(islice(results, rounds))
    results.close()
    assert resume or rounds is not None or told == simulation.record.rounds
    return simulation


def generated(count: int, side: int = 4, classes: int = 4) -> Dataset:
    """Random images of the smallest size that a model takes, as many as wanted."""
    rng = np.random.default_rng(0)
    parts = []
    for size in (count, 200):
        y = np.arange(size, dtype=np.int64) % classes
        x = rng.random((size, 1, side, side), dtype=np.float32) * np.float32(0.5)
        x[np.arange(size), 0, y % side] += np.float32(0.5)
        parts.append(Samples(x, y))
    return Dataset("generated", classes, *parts)


@pytest.fixture(scope="session")
def digits() -> Dataset:
    return load_dataset("digits")
