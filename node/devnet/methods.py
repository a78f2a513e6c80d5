"""All methods that federations on this machine run, and what each is run on."""

from collections.abc import Callable
from contextlib import ExitStack

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.clusters import ClustersRunner
from fedgrove.node.devnet.method import MethodRunner, TrainingRunner
from fedgrove.node.devnet.points import PointsRunner
from fedgrove.node.devnet.subject import Subject
from fedgrove.node.methods.registry import METHODS
from fedgrove.node.scenario.scenario import Scenario

LEAST_CLIENTS, MOST_CLIENTS, MOST_ROUNDS = 3, 1000, 10_000
RUNNERS: dict[str, MethodRunner] = {
    "training": TrainingRunner(),
    "procfl": ClustersRunner(),
    "kmeans": PointsRunner(),
}


def runner_of(scenario: Scenario) -> MethodRunner:
    """What runs the scenario's method; InvalidConfig where it is simulated only."""
    name = scenario.method.name
    if name not in RUNNERS:
        raise InvalidConfig(f"method must be one of {', '.join(RUNNERS)}: {name} is simulated only")
    return RUNNERS[name]


def check_federation(scenario: Scenario, most_clients: int = MOST_CLIENTS) -> None:
    """Raise InvalidConfig unless a federation on this machine can run the scenario."""
    clients, rounds = scenario.cast.clients, scenario.federation.rounds
    if not LEAST_CLIENTS <= clients <= most_clients:
        allowed = f"a whole number from {LEAST_CLIENTS} to {most_clients}"
        raise InvalidConfig(f"scenario.clients must be {allowed}, not {clients}")
    if rounds > MOST_ROUNDS:
        raise InvalidConfig(f"federation.rounds must be a whole number from 1 to {MOST_ROUNDS}, not {rounds}")
    if scenario.attack is not None:
        raise InvalidConfig("attack is for simulations: leave the table out")
    runner, method = runner_of(scenario), scenario.method.name
    if scenario.run.device != "cpu" and method not in {kind.name for kind in METHODS if kind.on_gpu}:
        raise InvalidConfig(f"run.device must be cpu: {method} computes on the processor only")
    runner.check(scenario)


def subject_of(scenario: Scenario, stack: ExitStack, say: Callable[[str], None], remedy: str = "") -> Subject:
    """The subject of a scenario for processes on a chain of their own.

    Parameters
    ----------
    stack : ExitStack
        Ends the task's processes.
    say : callable
        Told of a suggestion of the task's that is not followed, with the ``remedy``.

    Raises
    ------
    InvalidConfig, InvalidInput, DatasetError, TaskFailed, SandboxUnavailable
        The task, its data or the data set are at fault.
    """
    return runner_of(scenario).subject(scenario, stack, say, remedy)
