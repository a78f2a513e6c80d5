"""The simulation that suits a plan."""

from concurrent.futures import Executor
from pathlib import Path

from fedgrove.node.lab.simulation.clustered.run import ClusteredSimulation
from fedgrove.node.lab.simulation.clustered.similarity import Progress
from fedgrove.node.lab.simulation.loop import SimulationRun
from fedgrove.node.lab.simulation.plan import Plan
from fedgrove.node.lab.simulation.run import Simulation
from fedgrove.node.learning.samples import Dataset


def simulation_of(
    plan: Plan,
    dataset: Dataset,
    executor: Executor,
    workers: int,
    directory: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> SimulationRun:
    """A simulation, clustered or not, as ``Simulation`` takes its arguments; ``progress`` is of private comparisons."""
    if plan.clustering is None:
        return Simulation(plan, dataset, executor, workers, directory, resume)
    return ClusteredSimulation(plan, dataset, executor, workers, directory, resume, progress)
