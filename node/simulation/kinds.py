"""The simulation that suits a scenario."""

from concurrent.futures import Executor
from pathlib import Path

from fedgrove.node.learning.samples import Dataset
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.clustered.run import ClusteredSimulation
from fedgrove.node.simulation.loop import Progress, SimulationRun
from fedgrove.node.simulation.run import Simulation
from fedgrove.node.simulation.task_folder import OpenedTask


def simulation_of(
    scenario: Scenario,
    subject: Dataset | OpenedTask,
    executor: Executor,
    workers: int,
    directory: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> SimulationRun:
    """A simulation of the scenario on a data set, or of its task; other arguments are those of ``SimulationRun``."""
    kind = ClusteredSimulation if scenario.method.several else Simulation
    return kind(scenario, subject, executor, workers, directory, resume, progress)
