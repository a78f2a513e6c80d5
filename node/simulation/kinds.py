"""The simulation that suits a plan."""

from concurrent.futures import Executor
from pathlib import Path

from fedgrove.node.lab.simulation.clustered.run import ClusteredSimulation
from fedgrove.node.lab.simulation.loop import Progress, SimulationRun
from fedgrove.node.lab.simulation.plan import Plan
from fedgrove.node.lab.simulation.run import Simulation
from fedgrove.node.lab.simulation.task_folder import OpenedTask
from fedgrove.node.lab.simulation.task_run import TaskRun
from fedgrove.node.learning.samples import Dataset


def simulation_of(
    plan: Plan,
    subject: Dataset | OpenedTask,
    executor: Executor,
    workers: int,
    directory: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> SimulationRun:
    """A simulation of the plan on a data set, or of its task; the other arguments are those of ``SimulationRun``."""
    if isinstance(subject, OpenedTask):
        return TaskRun(plan, subject, executor, workers, directory, resume, progress)
    kind = Simulation if plan.clustering is None else ClusteredSimulation
    return kind(plan, subject, executor, workers, directory, resume, progress)
