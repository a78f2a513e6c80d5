"""Plans of a few clients in groups, and their runs."""

from fedgrove.node.learning.settings import PartitionSettings, TrainingSettings
from fedgrove.node.scenario.clusters import SimulatedProCfl
from fedgrove.node.scenario.reading import MANY
from fedgrove.node.scenario.scenario import Scenario
from tests.node.simulation.conftest import changed, simulate

__all__ = ["GROUPS", "PROCFL", "QUICK", "grouped_plan", "simulate"]

QUICK = TrainingSettings(epochs=3, batch_size=10, learning_rate=0.1, momentum=0.5)
PROCFL = SimulatedProCfl(alpha=0.6)
GROUPS = PartitionSettings("groups", groups=3, others=0.3)


def grouped_plan(**changes) -> Scenario:
    """Nine clients in three groups, all drawn, four rounds on some of the digits."""
    values = {
        "clients": 9,
        "sampling_rate": 1.0,
        "rounds": 4,
        "training": QUICK,
        "partition": GROUPS,
        "train_samples": 360,
    }
    return changed(MANY, **{**values, "test_samples": 200, "seed": 3, **changes})
