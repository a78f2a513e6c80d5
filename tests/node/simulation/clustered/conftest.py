"""Plans of a few clients in groups, and their runs."""

from fedgrove.node.learning.settings import PartitionSettings, TrainingSettings
from fedgrove.node.scenario.reading import MANY
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.clustered.run import ClusteredSimulation
from fedgrove.node.simulation.executors import InlineExecutor
from tests.node.simulation.conftest import changed

QUICK = TrainingSettings(epochs=3, batch_size=10, learning_rate=0.1, momentum=0.5)
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


def simulate(plan, dataset, executor=None, workers=1, directory=None, resume=False, rounds=None) -> ClusteredSimulation:
    """Run to the end, or stop after so many rounds."""
    simulation = ClusteredSimulation(plan, dataset, executor or InlineExecutor(), workers, directory, resume)
    results = simulation.run()
    for number, _ in enumerate(results, 1):
        if number == rounds:
            break
    results.close()
    return simulation
