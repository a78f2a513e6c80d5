"""The simulation that suits a plan."""

from concurrent.futures import Executor
from pathlib import Path

from fedgrove.node.lab.simulation.clustered.run import ClusteredSimulation
from fedgrove.node.lab.simulation.loop import Progress, SimulationRun
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
    """A simulation, clustered or not; its arguments are those of ``SimulationRun``."""
    kind = Simulation if plan.clustering is None else ClusteredSimulation
    return kind(plan, dataset, executor, workers, directory, resume, progress)
