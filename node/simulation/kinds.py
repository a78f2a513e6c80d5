"""The simulation that suits a plan."""

from concurrent.futures import Executor
from pathlib import Path

from node.learning.samples import Dataset
from node.simulation.clustered.run import ClusteredSimulation
from node.simulation.clustered.similarity import Progress
from node.simulation.plan import Plan
from node.simulation.run import Simulation


def simulation_of(
    plan: Plan,
    dataset: Dataset,
    executor: Executor,
    workers: int,
    directory: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Simulation | ClusteredSimulation:
    """A simulation, clustered or not, as ``Simulation`` takes its arguments; ``progress`` is of private comparisons."""
    if plan.clustering is None:
        return Simulation(plan, dataset, executor, workers, directory, resume)
    return ClusteredSimulation(plan, dataset, executor, workers, directory, resume, progress)
