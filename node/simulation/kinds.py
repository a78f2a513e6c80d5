"""The simulations of methods, by their names."""

from concurrent.futures import Executor
from pathlib import Path

from fedgrove.node.learning.samples import Dataset
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.clustered.run import ClusteredSimulation
from fedgrove.node.simulation.loop import Progress, SimulationRun
from fedgrove.node.simulation.run import Simulation
from fedgrove.node.simulation.task_folder import OpenedTask

KINDS: dict[str, type[SimulationRun]] = {
    "training": Simulation,
    "procfl": ClusteredSimulation,
    "ifca": ClusteredSimulation,
    "global": ClusteredSimulation,
}


def kind_of(scenario: Scenario) -> type[SimulationRun]:
    """The simulation of the scenario's method."""
    return KINDS[scenario.method.name]


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
    return kind_of(scenario)(scenario, subject, executor, workers, directory, resume, progress)
